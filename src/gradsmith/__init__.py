"""Custom gradients for PyTorch that hold everywhere.

The names below are loaded at first use: `import gradsmith` alone does not import torch, so that the command line
answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsmith.declare import (
        CustomGradient,
        DeclaredFunction,
        SurrogateGradient,
        custom_gradient,
        gradient_of,
        keep,
        straight_through,
    )
    from gradsmith.errors import DeclarationError, GradientError, GradsmithError
    from gradsmith.ops import reverse_gradient, scale_gradient, split_and_scale

__all__ = [
    "CustomGradient",
    "DeclarationError",
    "DeclaredFunction",
    "GradientError",
    "GradsmithError",
    "SurrogateGradient",
    "custom_gradient",
    "gradient_of",
    "keep",
    "reverse_gradient",
    "scale_gradient",
    "split_and_scale",
    "straight_through",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gradsmith' has no attribute {name!r}")
    from gradsmith import declare, errors, ops

    for room in (declare, errors, ops):
        globals().update({public: getattr(room, public) for public in room.__all__})
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
