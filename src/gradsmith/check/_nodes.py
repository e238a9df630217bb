"""The custom nodes in the graph of a trial: what they saved, what hangs on them, what their backward returns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

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
        if isinstance(node, BackwardCFunction):
            found.append(node)
        queue += [n for n, _ in node.next_functions if n is not None]
    return found


def is_ours(node: Any) -> bool:
    """Whether gradsmith made the node for a declared gradient."""
    return str(type(node).__module__).startswith("gradsmith.declare") or _made_by(node).startswith("gradsmith.")


def _made_by(node: Any) -> str:
    return str(getattr(getattr(node, "_forward_cls", None), "__module__", ""))


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
    """Tensors in nested containers and partial functions."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from reachable(item, depth + 1)
    elif isinstance(value, (list, tuple, set)) and depth < 6:
        for item in value:
            yield from reachable(item, depth + 1)
    elif depth < 3 and callable(value) and getattr(value, "__closure__", None):
        for cell in value.__closure__:
            try:
                yield from reachable(cell.cell_contents, depth + 3)
            except ValueError:
                continue
