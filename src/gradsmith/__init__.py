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
    from gradsmith.reach.inputs.cases import case, cases
    from gradsmith.reach.inputs.record import record

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
    "case",
    "cases",
    "check",
    "custom_gradient",
    "gradient_of",
    "keep",
    "record",
    "reverse_gradient",
    "scale_gradient",
    "split_and_scale",
    "straight_through",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'gradsmith' has no attribute {name!r}")
    for path, names in _LATER.items():
        if name in names:
            return getattr(importlib.import_module(path), name)
    from gradsmith import declare, errors, ops

    for room in (declare, errors, ops):
        globals().update({public: getattr(room, public) for public in room.__all__})
    return globals()[name]


# The prover, and what helps it with a package, are loaded only when they are asked for.
_LATER = {
    "gradsmith.check": ("Finding", "Report", "check"),
    "gradsmith.reach.inputs.cases": ("case", "cases"),
    "gradsmith.reach.inputs.record": ("record",),
}


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
