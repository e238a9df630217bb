"""The source probe: the text of a subject and of the custom gradients that it leads to."""

from __future__ import annotations

import functools
import inspect
import os
import textwrap
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from gradsmith.check._observation import Observation
from gradsmith.declare._private import OPERATORS, CustomOpDef, operator_definition, operator_facts

__all__ = ["read_source", "source_observation", "source_text"]

ROLES = {"forward", "backward", "setup_context", "jvp", "vmap", "vjp"}
# Code of these is not the author's.
FOREIGN = {"torch", "builtins", "typing", "abc", "numpy", "functools", "contextlib"}
# A wrapper leads to a Function, which leads to helpers: more than this is a whole package.
MOST_UNITS = 120


def source_observation(subject: Any) -> Observation:
    """The source of a subject as an observation; its data is empty where there is no source."""
    return Observation(law="source", data=read_source(subject) or {})


def source_text(observations: Iterable[Observation]) -> str:
    """All that was read of a subject."""
    return "\n".join(u["text"] for o in observations if o.law == "source" for u in o.data.get("units", []))


def read_source(subject: Any) -> dict[str, Any] | None:
    """The text of a subject, method by method, with that of every custom gradient it refers to.

    Args:
        subject: A Function class (or its `apply`), an `nn.Module` (instance or class), a function or method, a
            `torch.library.custom_op`, or another object with methods.

    Returns:
        Plain data, or None where no source is to be had (built in C, made by `exec`):

        * `file`, `kind` ("Function", "Module", "function" or "custom_op") and `name` of the subject,
        * `units`: for each function `role`, `name`, `line` of its first line, `text`, `params`, and besides `file`,
          `owner` (the class or operator it belongs to, or ""), `owner_kind`, and `wrapped`: whether something stands
          around the function; those of the subject come first,
        * `owners`: for each owner what is not in the text: `generate_vmap_rule`, or `mutates` and `tensors`, the
          argument names an operator declares.

    >>> def double(x):
    ...     return 2 * x
    >>> found = read_source(double)
    >>> found["kind"], found["name"], found["units"][0]["params"]
    ('function', 'double', ['x'])
    """
    subject = _bare(subject)
    reader = _Reader()
    kind, name = reader.take(subject)
    if not reader.units:
        return None
    return {"file": reader.units[0]["file"], "kind": kind, "name": name, "units": reader.units, "owners": reader.owners}


def _bare(subject: Any) -> Any:
    """The subject unwrapped: the class of an `apply`, the function of a partial, the definition of an operator."""
    while True:
        if isinstance(subject, functools.partial):
            subject = subject.func
        elif isinstance(subject, OPERATORS):
            return operator_definition(subject)
        elif _is_function_class(owner := getattr(subject, "__self__", None)):
            return owner
        elif not isinstance(subject, type) and callable(inner := inspect.getattr_static(subject, "__wrapped__", None)):
            subject = inner
        else:
            return subject


def _is_function_class(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, torch.autograd.Function)


class _Reader:
    def __init__(self) -> None:
        self.units: list[dict[str, Any]] = []
        self.owners: dict[str, dict[str, Any]] = {}
        self.seen: set[int] = set()
        self.root = ""

    def take(self, subject: Any) -> tuple[str, str]:
        """Read one subject and then what it refers to; its kind and name."""
        if isinstance(subject, CustomOpDef):
            return "custom_op", self.operator(subject)
        if isinstance(subject, (FunctionType, MethodType)):
            function = inspect.unwrap(subject)
            self.root = _root(function)
            self.function(function, "function", subject.__name__)
            return "function", subject.__name__
        if isinstance(subject, torch.nn.Module):
            kinds = [type(subject), *dict.fromkeys(type(m) for m in subject.modules())]
            for kind in dict.fromkeys(kinds):
                self.klass(kind)
            for value in [v for m in subject.modules() for v in vars(m).values()]:
                self.refer(value)
            return "Module", type(subject).__name__
        kind = subject if isinstance(subject, type) else type(subject)
        self.klass(kind)
        return "Function" if issubclass(kind, torch.autograd.Function) else "Module", kind.__name__

    def klass(self, kind: type) -> None:
        if id(kind) in self.seen:
            return
        self.seen.add(id(kind))
        if _root(kind) not in FOREIGN:
            self.root = self.root or _root(kind)
        owner_kind = "class"
        if issubclass(kind, torch.autograd.Function):
            owner_kind = "Function"
        elif issubclass(kind, torch.nn.Module):
            owner_kind = "Module"
        facts: dict[str, Any] = {"bases": [b.__name__ for b in kind.__mro__[1:]]}
        if owner_kind == "Function":
            facts["generate_vmap_rule"] = bool(getattr(kind, "generate_vmap_rule", False))
        self.owners[kind.__name__] = facts
        taken: set[str] = set()
        for base in kind.__mro__:
            if _root(base) in FOREIGN:
                continue
            for name, member in vars(base).items():
                function = _function(member)
                if function is None or name in taken:
                    continue
                taken.add(name)
                role = name if name in ROLES else "function"
                self.function(function, role, name, kind.__name__, owner_kind, _inner(member) is not function)

    def operator(self, definition: CustomOpDef) -> str:
        facts = operator_facts(definition)
        if id(definition) in self.seen:
            return facts.name
        self.seen.add(id(definition))
        self.owners[facts.name] = {"mutates": facts.mutates, "tensors": facts.tensors}
        for role, part in facts.parts.items():
            function = _function(part)
            if function is not None:
                self.root = self.root or _root(function)
                self.function(function, role, function.__name__, facts.name, "custom_op")
        return facts.name

    def function(
        self,
        function: FunctionType,
        role: str,
        name: str,
        owner: str = "",
        owner_kind: str = "function",
        wrapped: bool = False,
    ) -> None:
        if (not owner and id(function) in self.seen) or len(self.units) >= MOST_UNITS:
            return
        self.seen.add(id(function))
        try:
            lines, first = inspect.getsourcelines(function)
            file = inspect.getsourcefile(function) or inspect.getfile(function)
        except (OSError, TypeError, SyntaxError, IndexError):
            return
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
        self.units.append(
            {
                "role": role,
                "name": name,
                "line": max(first, 1),
                "text": textwrap.dedent("".join(lines)),
                "params": list(code.co_varnames[:count]),
                "file": _short(file),
                "owner": owner,
                "owner_kind": owner_kind,
                "wrapped": wrapped,
            }
        )
        for value in _referred(function):
            self.refer(value)

    def refer(self, value: Any) -> None:
        """Read a custom gradient, or a function of the same package, that a text names."""
        value = _bare(value) if callable(value) else value
        if isinstance(value, CustomOpDef):
            self.operator(value)
        elif _is_function_class(value):
            if _root(value) not in FOREIGN:
                self.klass(value)
        elif isinstance(value, FunctionType) and _root(value) == self.root:
            self.function(inspect.unwrap(value), "function", value.__name__)


def _function(member: Any) -> FunctionType | None:
    """The plain function behind a method, static or not, decorated or not."""
    member = _inner(member)
    if not callable(member) or isinstance(member, type):
        return None
    try:
        member = inspect.unwrap(member)
    except ValueError:
        return None
    return member if isinstance(member, FunctionType) else None


def _inner(member: Any) -> Any:
    return member.__func__ if isinstance(member, (staticmethod, classmethod)) else member


def _root(thing: Any) -> str:
    return (getattr(thing, "__module__", None) or "").partition(".")[0]


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _referred(function: FunctionType) -> Iterator[Any]:
    """The values of the free names of a function, and those it takes from modules it names."""
    names = dict.fromkeys(_names(function.__code__))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            if value.__name__.partition(".")[0] not in FOREIGN:
                yield from (vars(value)[inner] for inner in names if inner in vars(value))
        elif value is not None:
            yield value


def _short(file: str) -> str:
    here = os.getcwd() + os.sep
    return file.removeprefix(here)
