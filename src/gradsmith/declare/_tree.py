"""Values that hold tensors: taken apart into leaves and a structure, and put together again.

The structure is made of plain tuples and strings, so that torch.compile can treat it as a constant:

* `"*"` is a leaf,
* `("=", value)` a constant,
* `(kind, type, keys, children)` a container: "dict", "OrderedDict", "list", "tuple" (type None), or "fields" for a
  NamedTuple or dataclass of that type.
"""

from __future__ import annotations

import dataclasses
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gradsmith.errors import DeclarationError

__all__ = [
    "LEAF",
    "Structure",
    "count_leaves",
    "described",
    "flatten",
    "holds_objects",
    "is_number",
    "is_tensor",
    "leaf_names",
    "open_like",
    "skeleton",
    "unflatten",
    "with_named_classes",
]

Structure = Any
LEAF = "*"


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def is_number(value: Any) -> bool:
    """Numbers travel as leaves into a compiled graph, so that a new value needs no new graph."""
    return isinstance(value, (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool))


def flatten(value: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] = is_tensor) -> Structure:
    """Append the leaves of `value` to `leaves`, depth first, and return its structure."""
    if is_leaf(value):
        leaves.append(value)
        return LEAF
    container = _open(value)
    if container is None:
        _refuse_unusable(value)
        return ("=", value)
    kind, keys, children = container
    cls = type(value) if kind == "fields" else None
    return (kind, cls, keys, tuple([flatten(child, leaves, is_leaf) for child in children]))


def _open(value: Any) -> tuple[str, tuple[Any, ...], list[Any]] | None:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f.name for f in dataclasses.fields(value)]
        names = (*fields, *[n for n in getattr(value, "__dict__", ()) if n not in fields])
        return "fields", names, [getattr(value, n) for n in names]
    if type(value) is dict:
        return "dict", tuple(value.keys()), list(value.values())
    if type(value) is OrderedDict:
        return "OrderedDict", tuple(value.keys()), list(value.values())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return "fields", value._fields, list(value)
    if type(value) is list:
        return "list", (), value
    if type(value) is tuple:
        return "tuple", (), list(value)
    return None


def _refuse_unusable(value: Any) -> None:
    """A tensor in a container that is not looked into would be a constant: no gradient, and no word about it."""
    if hasattr(value, "__next__"):
        raise DeclarationError(
            f"a {type(value).__name__} can be read only once, but forward and backward both may; pass a list"
        )
    if isinstance(value, (tuple, list, dict, set, frozenset)):
        inside = value.values() if isinstance(value, dict) else value
        if any(isinstance(item, torch.Tensor) for item in inside):
            raise DeclarationError(
                f"a {type(value).__name__} holds tensors, which would get no gradient there; use a dict, list, tuple, "
                f"NamedTuple or dataclass"
            )


def unflatten(structure: Structure, leaves: Iterator[Any], *, constants: bool = True) -> Any:
    """The value of this structure with these leaves, taken in order.

    `constants=False` puts None where the structure has a constant: gradients come in that form.
    """
    if isinstance(structure, str):
        return next(leaves)
    if structure[0] == "=":
        return structure[1] if constants else None
    kind, cls, keys, children = structure
    values = [unflatten(child, leaves, constants=constants) for child in children]
    if kind == "fields":
        return _with_fields(getattr(_classes, cls) if isinstance(cls, str) else cls, keys, values)
    if kind == "list":
        return values
    if kind == "tuple":
        return tuple(values)
    pairs = zip(keys, values, strict=True)
    return dict(pairs) if kind == "dict" else OrderedDict(pairs)


def _with_fields(cls: Any, keys: tuple[str, ...], values: list[Any]) -> Any:
    """A NamedTuple or dataclass with these fields, without the constructor, which may want or do other things."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, values)
    if issubclass(cls, dict):  # such as the outputs of transformers, whose fields are also items
        return cls(**dict(zip(keys, values, strict=True)))
    made = object.__new__(cls)
    for key, value in zip(keys, values, strict=True):
        object.__setattr__(made, key, value)
    return made


def with_named_classes(structure: Structure) -> Structure:
    """The structure with classes replaced by the name they are kept under: torch.compile guards those."""
    if isinstance(structure, str) or structure[0] == "=":
        return structure
    kind, cls, keys, children = structure
    if cls is not None:
        name = f"{cls.__name__}_{id(cls)}"
        setattr(_classes, name, cls)
        cls = name
    return (kind, cls, keys, tuple([with_named_classes(child) for child in children]))


class _Classes:
    """Holds classes as attributes."""


_classes = _Classes()


def count_leaves(structure: Structure) -> int:
    if isinstance(structure, str):
        return 1
    return 0 if structure[0] == "=" else sum(count_leaves(child) for child in structure[3])


_PLAIN_TYPES = (str, bytes, type(None), int, float, complex, bool, torch.dtype, torch.device, type)


def holds_objects(structure: Structure) -> bool:
    """Whether a constant is an object that might hold tensors itself, such as the `self` of a method."""
    if isinstance(structure, str):
        return False
    if structure[0] == "=":
        return not isinstance(structure[1], _PLAIN_TYPES)
    return any(holds_objects(child) for child in structure[3])


def described(structure: Structure) -> str:
    """A structure in words for a message: `{'a': tensor, 'b': [tensor, None]}`."""
    if isinstance(structure, str):
        return "tensor"
    if structure[0] == "=":
        return repr(structure[1])
    kind, cls, keys, children = structure
    parts = [described(child) for child in children]
    if kind == "list":
        return f"[{', '.join(parts)}]"
    if kind == "tuple":
        return f"({', '.join(parts)})"
    named = zip(keys, parts, strict=True)
    if kind == "fields":
        return f"{cls.__name__}({', '.join(f'{k}={p}' for k, p in named)})"
    return f"{{{', '.join(f'{k!r}: {p}' for k, p in named)}}}"


def skeleton(structure: Structure) -> Structure:
    """The structure without its constants, to compare how two values are built."""
    if isinstance(structure, str):
        return structure
    if structure[0] == "=":
        return None
    kind, cls, keys, children = structure
    return (kind, cls, keys, tuple([skeleton(child) for child in children]))


def leaf_names(structure: Structure, name: str) -> list[str]:
    """A readable name for each leaf: `x`, `params['w']`, `pair[0]`, `state.h`."""
    if isinstance(structure, str):
        return [name]
    if structure[0] == "=":
        return []
    parts = _parts(structure)
    return [n for part, child in zip(parts, structure[3], strict=True) for n in leaf_names(child, name + part)]


def open_like(structure: Structure, value: Any, name: str) -> list[tuple[Structure, Any, str]]:
    """The children of a value that should be built like `structure`: their structure, themselves, their name.

    Raises KeyError, IndexError, AttributeError or TypeError where it is built otherwise.
    """
    kind, _, keys, children = structure
    parts = _parts(structure)
    if kind == "fields":
        values = [getattr(value, key) for key in keys]
    elif kind in ("dict", "OrderedDict"):
        values = [value[key] for key in keys]
        if len(value) != len(keys):
            raise KeyError(f"not {next(k for k in value if k not in keys)!r}")
    elif isinstance(value, (list, tuple)) and len(value) == len(children):
        values = list(value)
    else:
        raise IndexError(f"{len(children)} items")
    return [(c, v, name + p) for c, v, p in zip(children, values, parts, strict=True)]


def _parts(structure: Structure) -> list[str]:
    kind, _, keys, children = structure
    if kind in ("list", "tuple"):
        return [f"[{i}]" for i in range(len(children))]
    return [f".{key}" if kind == "fields" else f"[{key!r}]" for key in keys]
