"""Custom gradients for PyTorch that hold everywhere.

The names below are loaded at first use: `import gradsmith` alone does not import torch, so that the command line
answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsmith.check import Finding, Report, check
    from gradsmith.declare import (
        CustomGradient,
        DeclaredFunction,
        SurrogateGradient,
        custom_gradient,
        gradient_of,
        keep,
        straight_through,
    )
    from gradsmith.errors import CheckError, DeclarationError, GradientError, GradsmithError, UsageError
    from gradsmith.ops import reverse_gradient, scale_gradient, split_and_scale

__all__ = [
    "CheckError",
    "CustomGradient",
    "DeclarationError",
    "DeclaredFunction",
    "Finding",
    "GradientError",
    "GradsmithError",
    "Report",
    "SurrogateGradient",
    "UsageError",
    "check",
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
    if name in _CHECK:
        return getattr(importlib.import_module("gradsmith.check"), name)
    from gradsmith import declare, errors, ops

    for room in (declare, errors, ops):
        globals().update({public: getattr(room, public) for public in room.__all__})
    return globals()[name]


_CHECK = ("Finding", "Report", "check")  # the prover is loaded only when it is asked for


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
