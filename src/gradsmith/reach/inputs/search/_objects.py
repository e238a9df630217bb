"""Objects an argument may have to be: those a package holds ready, and records it can make of nothing."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from typing import Any

from gradsmith.reach.inputs.search._values import Literal

__all__ = ["objects_of", "objects_with"]


def objects_with(attribute: str, module: str) -> Iterator[Literal]:
    """Records with a field of this name, from the package of a module: made of defaults, or as they stand in it."""
    yield from _made(module, lambda cls: attribute in _fields(cls))


def objects_of(annotation: str, module: str) -> Iterator[Literal]:
    """The same by the name of the class, which need be no record."""
    name = annotation.strip("'\"").rpartition(".")[2]
    if name.isidentifier():
        yield from _made(module, lambda cls: cls.__name__ == name)


def _made(module: str, fits: Callable[[type], bool]) -> Iterator[Literal]:
    top = module.partition(".")[0]
    if top == "torch":  # where operators are from
        return
    mine = [m for m in sys.modules if m == top or m.startswith(f"{top}.")]
    held = {m: dict(vars(sys.modules[m])) for m in mine}
    classes = {v for values in held.values() for v in values.values() if _is_own_class(v, top) and fits(v)}
    for cls in sorted(classes, key=lambda cls: cls.__qualname__):
        try:
            value = cls()
        except Exception:  # noqa: BLE001  (a class of the package)
            continue
        yield Literal(value, f'importlib.import_module("{cls.__module__}").{cls.__qualname__}()')
    met: list[Any] = []
    for name, values in held.items():
        for key, value in values.items():
            if type(value) in classes and not any(value is other for other in met):
                met.append(value)
                yield Literal(value, f'importlib.import_module("{name}").{key}')


def _is_own_class(value: Any, top: str) -> bool:
    return isinstance(value, type) and value.__module__.partition(".")[0] == top and "<" not in value.__qualname__


def _fields(cls: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls))
    return tuple(getattr(cls, "_fields", ())) if issubclass(cls, tuple) else ()
