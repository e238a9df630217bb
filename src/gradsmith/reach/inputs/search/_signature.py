"""The parameters of what is to be called, alike for Functions, operators and functions."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import Function

from gradsmith.declare._private import OPERATORS, CustomOpDef

__all__ = ["Parameter", "parameters_of"]


@dataclass(frozen=True)
class Parameter:
    """One parameter: name, annotation as text, default where it has one, and whether it stands for any number."""

    name: str
    annotation: str = ""
    default: Any = None
    has_default: bool = False
    variadic: bool = False


def parameters_of(subject: Any) -> list[Parameter]:
    """The parameters that arguments are given for, in their order; nothing where they are not known."""
    if isinstance(subject, CustomOpDef):
        return _of_schema(subject._opoverload._schema)
    if isinstance(subject, OPERATORS):
        overload: Any = subject
        if not hasattr(overload, "_schema"):  # a packet of overloads
            overload = getattr(overload, overload.overloads()[0])
        return _of_schema(overload._schema)
    target: Any = subject.forward if isinstance(subject, torch.nn.Module) else subject
    context = False
    if isinstance(subject, type) and issubclass(subject, Function):
        target = subject.forward
        context = subject.setup_context is Function.setup_context
    try:
        found = list(inspect.signature(target).parameters.values())
    except (TypeError, ValueError):
        return []
    if context:
        if found and found[0].kind is inspect.Parameter.VAR_POSITIONAL:
            return [Parameter("args", variadic=True)]
        found = found[1:]
    return [_of_python(p) for p in found if p.kind is not p.VAR_KEYWORD]


def _of_python(p: inspect.Parameter) -> Parameter:
    annotation = "" if p.annotation is p.empty else p.annotation if isinstance(p.annotation, str) else _text(p)
    default = None if p.default is p.empty else p.default
    return Parameter(p.name, annotation, default, p.default is not p.empty, p.kind is p.VAR_POSITIONAL)


def _text(p: inspect.Parameter) -> str:
    text = inspect.formatannotation(p.annotation)
    return text.replace("typing.", "").replace("collections.abc.", "").replace("torch.Tensor", "Tensor")


def _of_schema(schema: Any) -> list[Parameter]:
    return [
        Parameter(a.name, _schema_type(str(a.type)), a.default_value, a.has_default_value()) for a in schema.arguments
    ]


def _schema_type(text: str) -> str:
    inner = text.removeprefix("Optional[").removesuffix("]") if text.startswith("Optional[") else ""
    return f"Optional[{inner}]" if inner else text
