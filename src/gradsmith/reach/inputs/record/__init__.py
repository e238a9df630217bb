"""Record the calls of custom gradients while a program runs, to check them with what they really get.

Names are loaded at first use: a process that is recorded must not import torch before it does so itself.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsmith.reach.inputs.record._calls import Recorded, RecordedCall, load_calls
    from gradsmith.reach.inputs.record._record import record, recording

__all__ = ["Recorded", "RecordedCall", "load_calls", "record", "recording"]

_HOME = {"record": "_record", "recording": "_record"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, '_calls')}"), name)
