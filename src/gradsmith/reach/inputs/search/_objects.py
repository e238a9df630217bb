"""Objects an argument may have to be: records of parameters that a package defines and that can be made of nothing."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator

from gradsmith.reach.inputs.search._values import Literal

__all__ = ["objects_of", "objects_with"]


def objects_with(attribute: str, module: str) -> Iterator[Literal]:
    """Named tuples and dataclasses with a field of this name, from the package of a module, made of their defaults."""
    yield from _made(module, lambda cls: attribute in _fields(cls))


def objects_of(annotation: str, module: str) -> Iterator[Literal]:
    """The same by the name of the class."""
    name = annotation.strip("'\"").rpartition(".")[2]
    if name.isidentifier():
        yield from _made(module, lambda cls: cls.__name__ == name and bool(_fields(cls)))


def _made(module: str, fits: Callable[[type], bool]) -> Iterator[Literal]:
    top = module.partition(".")[0]
    made: set[type] = set()
    for name in [m for m in sys.modules if m == top or m.startswith(f"{top}.")]:
        for cls in list(vars(sys.modules[name]).values()):
            if not isinstance(cls, type) or cls in made or not fits(cls):
                continue
            made.add(cls)
            try:
                value = cls()
            except Exception:  # noqa: BLE001  (a class of the package)
                continue
            yield Literal(value, f'importlib.import_module("{cls.__module__}").{cls.__qualname__}()')


def _fields(cls: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(cls):
        return tuple(f.name for f in dataclasses.fields(cls))
    return tuple(getattr(cls, "_fields", ())) if issubclass(cls, tuple) else ()
