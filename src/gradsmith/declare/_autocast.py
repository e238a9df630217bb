"""The backward runs under the autocast of its forward, as `torch.amp.custom_bwd` makes it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from gradsmith.declare._private import any_autocast_enabled

__all__ = ["Autocast", "autocast_of", "under"]

Autocast = tuple[str, torch.dtype, bool]
_NO_CONTEXT = nullcontext()


def autocast_of(values: Iterable[Any]) -> Autocast | None:
    """The autocast in force for the device of these values; None where there is none."""
    for value in values:
        if isinstance(value, torch.Tensor):
            device = value.device.type
            if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
                return device, torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()
            return None
    return None


def under(autocast: Autocast | None, device: str) -> AbstractContextManager[Any]:
    """A context with this autocast and no other."""
    if autocast is not None:
        device, dtype, cache = autocast
        return torch.autocast(device, dtype, cache_enabled=cache)
    if any_autocast_enabled() and torch.amp.is_autocast_available(device):
        return torch.autocast(device, enabled=False)
    return _NO_CONTEXT
