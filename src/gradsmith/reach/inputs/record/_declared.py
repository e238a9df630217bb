"""Gradients declared with gradsmith, watched: what runs inside of them is ours, what is called is theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradsmith.declare import DeclaredFunction
from gradsmith.declare._private import is_compiling
from gradsmith.reach.inputs.record._private import aside

__all__ = ["unwatch_declared", "watch_declared"]

Around = Callable[[Any, tuple[Any, ...], dict[str, Any]], Callable[[], None] | None]
_WATCHED = "__gradsmith_watched__"
_original_init = DeclaredFunction.__init__


def watch_declared(around: Around) -> None:
    """Call `around(function, args, kwargs)` before every call of a declared function, and what it returns after it."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        _original_init(self, *args, **kwargs)
        _wrap(type(self), around)

    DeclaredFunction.__init__ = init  # type: ignore[method-assign]
    for kind in _kinds(DeclaredFunction):
        _wrap(kind, around)


def unwatch_declared() -> None:
    DeclaredFunction.__init__ = _original_init  # type: ignore[method-assign]
    for kind in _kinds(DeclaredFunction):
        if (call := getattr(vars(kind).get("__call__"), _WATCHED, None)) is not None:
            kind.__call__ = call


def _kinds(kind: type[Any]) -> Iterator[type[Any]]:
    """Every declared function has a class of its own, which holds its call."""
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def _wrap(kind: type[Any], around: Around) -> None:
    call = vars(kind).get("__call__")
    if call is None or hasattr(call, _WATCHED):
        return

    def watched(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        done = None if is_compiling() else aside(around, self, args, kwargs)
        result = call(self, *args, **kwargs)
        if done is not None:
            aside(done)
        return result

    setattr(watched, _WATCHED, call)
    kind.__call__ = watched
