"""Prove any custom gradient right, or learn what is wrong with it.

`gradsmith.check(subject, inputs)` is the function; as a module of the same name this holds what it returns.
"""

from __future__ import annotations

import sys
import types
from typing import Any

from gradsmith.check._check import check, observe
from gradsmith.check._finding import Finding, Rule
from gradsmith.check._observation import Observation, Observations, dump, load
from gradsmith.check._report import Report

__all__ = ["Finding", "Observation", "Observations", "Report", "Rule", "check", "dump", "load", "observe"]


class _CallableModule(types.ModuleType):
    """Lets `gradsmith.check(...)` mean the function, whichever way this package was imported."""

    __signature__ = __import__("inspect").signature(check)

    def __call__(self, *args: Any, **kwargs: Any) -> Report:
        return check(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
