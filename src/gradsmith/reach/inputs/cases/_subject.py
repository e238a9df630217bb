"""Whom a case is for, by name or as the object, and what counts as a function of cases."""

from __future__ import annotations

import inspect
import re
import sys
import types
from dataclasses import dataclass
from typing import Any

import torch

from gradsmith.errors import UsageError
from gradsmith.reach.inputs.record._recorder import identity

__all__ = ["Subject", "is_maker", "subject_of"]

_NAME = re.compile(r"[A-Za-z_][\w.]*(:[A-Za-z_][\w.<>]*|::[A-Za-z_][\w.]*)?")


@dataclass(frozen=True)
class Subject:
    """Whom a case is for.

    Args:
        name: "package.module:Clip", "library::name", or a bare module: whatever its cases call.
        thing: The object where it was given.
    """

    name: str
    thing: Any = None

    @property
    def whatever_is_called(self) -> bool:
        return ":" not in self.name

    def means(self, name: str, thing: Any) -> bool:
        """Whether it is this function: by the name it is defined under, by another one, or as the object."""
        if self.name == name or (thing is not None and thing is self.thing):
            return True
        if thing is None or "::" in self.name or self.whatever_is_called:
            return False
        module, _, inside = self.name.partition(":")
        held: Any = sys.modules.get(module)
        try:
            for part in inside.split("."):
                held = getattr(held, part)
        except Exception:  # noqa: BLE001  (modules that import what is asked of them)
            return False
        return held is thing


def is_maker(thing: Any) -> bool:
    """Whether it makes cases: a plain function without parameters; no custom gradient is one."""
    return isinstance(thing, types.FunctionType) and not inspect.signature(thing).parameters


def subject_of(thing: Any) -> Subject:
    """Whom `thing` means.

    Raises:
        UsageError: it is no name and nothing that could have a gradient.
    """
    if isinstance(thing, str):
        if not _NAME.fullmatch(thing):
            raise UsageError(
                f"cases: got {thing!r}; expected 'package.module:Name', 'library::name', the name of a package, or the "
                "custom gradient itself"
            )
        return Subject(thing)
    if isinstance(thing, types.ModuleType):
        return Subject(thing.__name__)
    owner = getattr(thing, "__self__", None)
    if inspect.ismethod(thing) and thing.__name__ == "apply" and isinstance(owner, type):
        return Subject(identity(owner), owner)
    if isinstance(thing, torch.nn.Module):
        return Subject(identity(type(thing)), thing)
    if not isinstance(thing, type) and (operator := _operator_name(thing)):
        return Subject(operator, thing)
    if callable(thing) and hasattr(thing, "__module__") and hasattr(thing, "__qualname__"):
        return Subject(identity(thing), thing)
    raise UsageError(
        f"cases: got {thing!r}; expected the name of a custom gradient, such as 'package.module:Clip', or itself"
    )


def _operator_name(thing: Any) -> str:
    """The name of an operator of torch.library; empty for everything else."""
    from gradsmith.declare._private import OPERATORS, CustomOpDef, operator_definition, operator_facts

    if isinstance(thing, OPERATORS):
        thing = operator_definition(thing)
    if isinstance(thing, CustomOpDef):
        return operator_facts(thing).name
    return str(thing).removesuffix(".default").replace(".", "::", 1) if isinstance(thing, OPERATORS) else ""
