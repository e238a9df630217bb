"""Arguments refused at the door, by name."""

from __future__ import annotations

import numbers
import sys
from typing import Any

import torch

__all__ = ["check_differentiable", "check_number", "check_real"]


def check_differentiable(function: str, name: str, value: Any) -> None:
    """A tensor that can have a gradient."""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{function}: {name} is a {type(value).__name__}; expected a torch.Tensor")
    if not (value.is_floating_point() or value.is_complex()):
        raise TypeError(
            f"{function}: {name} has dtype {value.dtype}, which has no gradient; expected a floating-point or complex "
            f"tensor, such as {name}.float()"
        )


def check_real(function: str, name: str, value: Any) -> None:
    """A tensor that can have a gradient and whose elements have a sign."""
    check_differentiable(function, name, value)
    if value.is_complex():
        raise TypeError(f"{function}: {name} has dtype {value.dtype}; complex numbers have no sign. Expected real ones")


def check_number(function: str, name: str, value: Any) -> None:
    """A finite real number."""
    if isinstance(value, (torch.SymInt, torch.SymFloat)):
        return  # the symbol torch.compile keeps for a number that was checked
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{function}: {name} is a {type(value).__name__} ({value!r}); expected a number, such as 0.5")
    # (math.isfinite does not take a number that torch.compile made symbolic)
    if not -_LARGEST <= value <= _LARGEST:  # type: ignore[operator]
        raise ValueError(f"{function}: {name} is {value}; expected a finite number")


_LARGEST = sys.float_info.max
