"""Tensors a declared function reaches without being given them: no gradient could ever flow to those."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from gradsmith.declare._escape import is_tracked
from gradsmith.declare._private import is_transformed
from gradsmith.errors import DeclarationError

__all__ = ["refuse_captured", "refuse_reached"]


def refuse_captured(function: Callable[..., Any], name: str) -> bool:
    """Raise if `function` closes over a tensor that requires grad, or names one as a global.

    Returns whether it captures any tensor or module, which might come to require grad later.
    """
    suspects = False
    for where, tensor in _captured(function):
        suspects = True
        if is_tracked(tensor) or is_transformed(tensor):
            raise DeclarationError(_message(name, where, tensor))
    return suspects


def refuse_reached(outputs: list[torch.Tensor], name: str) -> None:
    """Raise if outputs computed from detached inputs still depend on a tensor that requires grad."""
    for output in outputs:
        if output.requires_grad:
            tensor = _first_leaf(output)
            raise DeclarationError(_message(name, "a tensor that is none of its inputs", tensor))


def _message(name: str, where: str, tensor: torch.Tensor | None) -> str:
    shape = "" if tensor is None else f" (shape {list(tensor.shape)})"
    return (
        f"{name} uses {where}{shape}, which is differentiated or vmapped outside but is no argument, so that it would "
        f"be missed. Pass it as an argument of {name} and return its gradient, or use its .detach()"
    )


def _captured(function: Callable[..., Any], depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    """The captured tensors, each with the words that say where it was found."""
    if isinstance(function, functools.partial):
        for i, value in enumerate(function.args):
            yield from _inside(f"its partial argument {i}", value)
        function = function.func
    if isinstance(function, torch.nn.Module):
        yield from _inside("itself", function)
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        return
    closure = function.__closure__ or ()
    for name, cell in zip(code.co_freevars, closure, strict=True):
        try:
            value = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield from _inside(f"{name!r} of the enclosing scope", value, depth)
    for name in {i.argval for i in dis.get_instructions(code) if i.opname == "LOAD_GLOBAL"}:
        if name in function.__globals__:
            yield from _inside(f"the global {name!r}", function.__globals__[name], depth)


def _inside(where: str, value: Any, depth: int = 0) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield where, value
    elif isinstance(value, torch.nn.Module):
        for name, parameter in value.named_parameters():
            yield f"the parameter {name!r} of {where}", parameter
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            if isinstance(item, torch.Tensor):
                yield f"{where}[{i}]", item
    elif isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, torch.Tensor):
                yield f"{where}[{key!r}]", item
    elif depth < 2 and inspect.isfunction(value):
        if not value.__module__.startswith("torch"):
            for inner, tensor in _captured(value, depth + 1):
                yield f"{inner}, through {where}", tensor


def _first_leaf(output: torch.Tensor) -> torch.Tensor | None:
    """The leaf a tensor was computed from, by walking its graph."""
    nodes, seen = [output.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            return node.variable  # type: ignore[no-any-return]
        nodes += [parent for parent, _ in node.next_functions]
    return output if output.grad_fn is None else None
