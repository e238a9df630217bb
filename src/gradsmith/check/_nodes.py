"""The custom nodes in the graph of a trial: what they saved, what hangs on them, what their backward returns."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from gradsmith.declare._private import function_class_of

__all__ = ["custom_nodes", "declared_by_us", "is_ours", "reachable", "saved_tensors", "stashed"]


def custom_nodes(outputs: Iterable[torch.Tensor]) -> list[Any]:
    """Nodes written in Python, nearest to the outputs first."""
    found: list[Any] = []
    seen: set[Any] = set()
    queue = [o.grad_fn for o in outputs if o.grad_fn is not None]
    while queue:
        node = queue.pop(0)
        if node in seen:
            continue
        seen.add(node)
        if issubclass(type(node), BackwardCFunction):
            found.append(node)
        queue += [n for n, _ in node.next_functions if n is not None]
    return found


def is_ours(node: Any) -> bool:
    """Whether gradsmith made the node for a declared gradient."""
    return str(type(node).__module__).startswith("gradsmith.declare") or _made_by(node).startswith("gradsmith.")


def _made_by(node: Any) -> str:
    return str(getattr(function_class_of(node), "__module__", ""))


def declared_by_us(outputs: Iterable[torch.Tensor]) -> bool:
    """Whether a gradient declared with gradsmith took part."""
    return any(_made_by(node).startswith(("gradsmith.declare", "gradsmith.ops")) for node in custom_nodes(outputs))


def saved_tensors(node: Any) -> list[Any]:
    try:
        return list(node.saved_tensors)
    except (RuntimeError, AttributeError):
        return []


def stashed(node: Any) -> dict[str, list[torch.Tensor]]:
    """Tensors among the attributes of ctx, also in containers and objects there, by the name of the attribute."""
    try:
        attributes = dict(vars(node))
    except TypeError:
        return {}
    return {name: tensors for name, value in attributes.items() if (tensors := list(reachable(value)))}


def reachable(value: Any, depth: int = 0) -> Iterable[torch.Tensor]:
    """Tensors in nested containers, partial functions, closures and plain objects."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth >= 5 or isinstance(value, (str, bytes, int, float, type, ModuleType, torch.nn.Module)):
        return
    elif isinstance(value, dict):
        for item in list(value.values()):
            yield from reachable(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from reachable(item, depth + 1)
    elif isinstance(value, functools.partial):
        yield from reachable([value.func, value.args, value.keywords], depth)
    elif isinstance(value, MethodType):
        yield from reachable(value.__self__, depth + 1)
    elif isinstance(value, FunctionType):
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # a cell that is still empty
                yield from reachable(cell.cell_contents, depth + 1)
    else:
        slots = [getattr(value, n, None) for n in getattr(type(value), "__slots__", ()) if isinstance(n, str)]
        yield from reachable([*getattr(value, "__dict__", {}).values(), *slots], depth + 1)
