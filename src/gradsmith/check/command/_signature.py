"""The names of the inputs a subject takes, and whether inputs were named in their order."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from gradsmith.errors import UsageError

__all__ = ["require_names"]


def require_names(subject: object, names: Sequence[str]) -> None:
    """Refuse an input whose name is not the parameter's in its place, where the parameters are known."""
    parameters = _parameters(subject)
    for place, name in enumerate(names):
        if not name or not parameters or place >= len(parameters) or parameters[place] == name:
            continue
        listed = ", ".join(parameters)
        raise UsageError(
            f"input {place + 1} is called {name!r}, but the parameters are {listed}; give the inputs in that order"
        )


def _parameters(subject: object) -> list[str]:
    """The positional parameters of what is called; none where they cannot be known."""
    function: Any = subject
    skipped = 0
    if isinstance(subject, type) and issubclass(subject, torch.autograd.Function):
        separate = subject.setup_context is not torch.autograd.Function.setup_context
        function, skipped = subject.forward, 0 if separate else 1
    elif isinstance(subject, torch.nn.Module):
        function = subject.forward
    elif isinstance(subject, type):
        return []
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_POSITIONAL for p in found):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][skipped:]
