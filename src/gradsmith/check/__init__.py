"""Prove any custom gradient right, or learn what is wrong with it.

`gradsmith.check(subject, inputs)` is the function; as a module of the same name this holds what it returns. Names are
loaded at first use, so that the command line lists and explains rules without importing torch.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradsmith.check._check import check, observe
    from gradsmith.check._finding import Finding, Rule
    from gradsmith.check._observation import Observation, Observations, dump, load
    from gradsmith.check.report._report import Report

__all__ = ["Finding", "Observation", "Observations", "Report", "Rule", "check", "dump", "load", "observe"]

_HOME = {
    **dict.fromkeys(("check", "observe"), "_check"),
    **dict.fromkeys(("Finding", "Rule"), "_finding"),
    **dict.fromkeys(("Observation", "Observations", "dump", "load"), "_observation"),
    "Report": "report._report",
}


def __getattr__(name: str) -> Any:
    if name == "__signature__":
        import inspect

        return inspect.signature(__getattr__("check"))
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


class _CallableModule(types.ModuleType):
    """Lets `gradsmith.check(...)` mean the function, whichever way this package was imported."""

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        report: Report = __getattr__("check")(*args, **kwargs)
        return report


sys.modules[__name__].__class__ = _CallableModule
