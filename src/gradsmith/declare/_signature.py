"""The signature of a declared function: how a call is bound to it and how the function is called again.

Binding is compiled once into Python functions of the same signature, so that a call costs no `inspect`.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from gradsmith.errors import DeclarationError

__all__ = ["Signature", "listed"]

_EMPTY = inspect.Parameter.empty
_KIND = inspect.Parameter
_STARS: dict[Any, str] = {_KIND.VAR_POSITIONAL: "*", _KIND.VAR_KEYWORD: "**"}
_ANY_CALL = inspect.Signature(
    [
        _KIND("input", _KIND.POSITIONAL_OR_KEYWORD),
        _KIND("args", _KIND.VAR_POSITIONAL),
        _KIND("kwargs", _KIND.VAR_KEYWORD),
    ]
)


class Signature:
    """The parameters of a callable, as names and as compiled binders."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            signature = inspect.signature(function.forward if isinstance(function, torch.nn.Module) else function)
        except (ValueError, TypeError):  # builtins such as torch.round do not tell
            signature = _ANY_CALL
        self.unknown = signature is _ANY_CALL
        self.parameters = list(signature.parameters.values())
        self.names = [p.name for p in self.parameters]
        self.return_annotation = signature.return_annotation
        self.only_positional = all(
            p.kind in (_KIND.POSITIONAL_ONLY, _KIND.POSITIONAL_OR_KEYWORD) for p in self.parameters
        )

    def wrapper(self, function: Callable[..., Any], run: Callable[..., Any]) -> Callable[..., Any]:
        """A method of this signature that hands its bound values, in order, to `run`."""
        values = "".join(f"{n}, " for n in self.names)
        return self._compile(_python_name(function), f"return __run(({values}))", {"__run": run})

    def arguments(self, values: Sequence[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The positional and keyword arguments that bind to these values."""
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter, value in zip(self.parameters, values, strict=True):
            if parameter.kind is _KIND.VAR_POSITIONAL:
                args += value
            elif parameter.kind is _KIND.VAR_KEYWORD:
                kwargs |= value
            elif parameter.kind is _KIND.KEYWORD_ONLY:
                kwargs[parameter.name] = value
            else:
                args.append(value)
        return tuple(args), kwargs

    def caller(self, function: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
        """A function that calls `function` with the values of its parameters, given in order."""
        if self.only_positional:
            return lambda values: function(*values)
        arguments = []
        for i, p in enumerate(self.parameters):
            name = f"{p.name}=" if p.kind is _KIND.KEYWORD_ONLY else _STARS.get(p.kind, "")
            arguments.append(f"{name}values[{i}]")
        namespace: dict[str, Any] = {"__function": function}
        exec(f"def call(values):\n    return __function({', '.join(arguments)})", namespace)
        call: Callable[[Sequence[Any]], Any] = namespace["call"]
        return call

    def _compile(self, name: str, body: str, namespace: dict[str, Any]) -> Callable[..., Any]:
        parts = ["__self"]
        if not any(p.kind is _KIND.POSITIONAL_ONLY for p in self.parameters):
            parts.append("/")
        star = slash = False
        for i, p in enumerate(self.parameters):
            if p.kind is _KIND.KEYWORD_ONLY and not star:
                parts.append("*")
                star = True
            default = "" if p.default is _EMPTY else "=None"
            mark = _STARS.get(p.kind, "")
            star = star or mark == "*"
            parts.append(f"{mark}{p.name}{default}")
            last = i + 1 == len(self.parameters) or self.parameters[i + 1].kind is not _KIND.POSITIONAL_ONLY
            if p.kind is _KIND.POSITIONAL_ONLY and last and not slash:
                parts.append("/")
                slash = True
        exec(f"def {name}({', '.join(parts)}):\n    {body}", namespace)
        function = namespace[name]
        function.__defaults__ = tuple(
            p.default for p in self.parameters if p.default is not _EMPTY and p.kind is not _KIND.KEYWORD_ONLY
        )
        function.__kwdefaults__ = {
            p.name: p.default for p in self.parameters if p.default is not _EMPTY and p.kind is _KIND.KEYWORD_ONLY
        }
        return function  # type: ignore[no-any-return]

    def subset_caller(self, function: Callable[..., Any], role: str) -> Callable[[Sequence[Any]], Any]:
        """A function that calls `function` with those of our values that it asks for by name.

        A function that names other parameters takes ours by position, the first ones first.
        """
        other = Signature(function)
        takes_all = any(p.kind is _KIND.VAR_POSITIONAL for p in other.parameters)
        if takes_all or self.unknown:
            return self.caller(function)
        required = [p for p in other.parameters if p.default is _EMPTY]
        if {p.name for p in required} <= set(self.names):
            wanted = [p for p in other.parameters if p.name in self.names]
            picks = [(p, self.names.index(p.name)) for p in wanted]
            unnamed = [i for p, i in picks if p.kind is _KIND.POSITIONAL_ONLY]
            by_name = {p.name: i for p, i in picks if p.kind is not _KIND.POSITIONAL_ONLY}
            return lambda values: function(*[values[i] for i in unnamed], **{n: values[i] for n, i in by_name.items()})
        by_position = all(
            p.kind is not _KIND.KEYWORD_ONLY and (p.name == own or p.name not in self.names)
            for p, own in zip(required, self.names, strict=False)
        )
        if len(required) <= len(self.names) and by_position:
            count = len(required)
            return lambda values: function(*values[:count])
        unknown = [p.name for p in required if p.name not in self.names]
        raise DeclarationError(
            f"{role} asks for {listed(unknown)}, which the forward does not have; that has {listed(self.names)}"
        )


def _python_name(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return name if name.isidentifier() and not keyword.iskeyword(name) else "declared"


def listed(names: Iterable[Any]) -> str:
    """Names as a readable list for a message."""
    return ", ".join(repr(n) for n in names) or "nothing"
