"""Under which names of which modules the objects stand that may have a gradient of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.autograd import Function

from gradsmith.declare import DeclaredFunction

__all__ = ["Names"]

_DEEPEST = 3  # classes inside of classes


class Names:
    """All names of the objects in some modules.

    Args:
        modules: The modules by name.
    """

    def __init__(self, modules: Mapping[str, Any]) -> None:
        self._of: dict[int, list[tuple[str, str]]] = {}
        self.things: dict[int, Any] = {}
        for module, thing in modules.items():
            for name, value in _attributes(thing):
                self._look(value, module, name, set())

    def of(self, thing: Any, module: str = "") -> list[tuple[str, str]]:
        """Modules and names it stands under: those in the module named first, then public ones, then short ones."""
        found = self._of.get(id(thing), [])
        return sorted(found, key=lambda n: (n[0] != module, "_" in f".{n[1]}".replace("._", "_"), n[0].count("."), n))

    def _look(self, value: Any, module: str, name: str, inside: set[int]) -> None:
        value = value.__func__ if type(value) is staticmethod else value
        kind = type(value)
        if not issubclass(kind, type):  # `isinstance` would ask objects that stand for others
            if issubclass(kind, DeclaredFunction):
                self._note(value, module, name)
            return
        if _may_have_gradient(value):
            self._note(value, module, name)
        if len(inside) < _DEEPEST and id(value) not in inside and type.__getattribute__(value, "__module__") == module:
            for key, held in _attributes(value):
                if not key.startswith("__"):
                    self._look(held, module, f"{name}.{key}", inside | {id(value)})

    def _note(self, value: Any, module: str, name: str) -> None:
        self.things[id(value)] = value
        self._of.setdefault(id(value), []).append((module, name))


def _may_have_gradient(cls: type) -> bool:
    bases = type.mro(cls) if cls is not type else []
    return Function in bases or (torch.nn.Module in bases and "backward" in vars(cls))


def _attributes(thing: Any) -> Iterator[tuple[str, Any]]:
    try:
        held = list(vars(thing).items())
    except Exception:  # noqa: BLE001  (an object in the place of a module)
        return
    yield from ((name, value) for name, value in held if isinstance(name, str))
