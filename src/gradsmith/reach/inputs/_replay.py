"""A call made fit to be checked: what its object arguments hold must stay what it is while tensors are exchanged."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from gradsmith.reach.inputs._call import Call

__all__ = ["fit"]


def fit(subject: Any, call: Call, precise: bool = True) -> tuple[Any, Call]:
    """The subject and the call, changed where an argument is or holds a module.

    Adjoint methods take a module, and its parameters one by one beside it, so that autograd sees them. A check calls
    with other tensors; the module would go on with its own. So its parameters stay where they are, in a function of the
    other arguments, and only those are judged. Where it is to be `precise`, the module is taken to float64, as the
    check does with tensors.
    """
    subject = call.subject if call.subject is not None else subject
    modules = list(_modules((call.args, call.kwargs)))
    if not modules:
        return subject, replace(call, subject=subject)
    args, kwargs = _precise(call.args, call.kwargs) if precise else (call.args, call.kwargs)
    held = {id(p) for module in _modules((args, kwargs)) for p in module.parameters()}
    free = [i for i, a in enumerate(args) if not (isinstance(a, torch.Tensor) and id(a) in held)]
    if len(free) == len(args):
        return subject, replace(call, args=args, kwargs=kwargs, subject=subject)

    def function(*chosen: Any, **options: Any) -> Any:
        given = list(args)
        for place, value in zip(free, chosen, strict=True):
            given[place] = value
        call = subject.apply if hasattr(subject, "apply") else subject
        return call(*given, **options)

    function.__name__ = function.__qualname__ = getattr(subject, "__name__", "function")
    return function, replace(call, args=tuple(args[i] for i in free), kwargs=kwargs, subject=function)


def _modules(value: Any) -> Iterator[torch.nn.Module]:
    if isinstance(value, torch.nn.Module):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _modules(item)
    elif isinstance(value, dict):
        yield from _modules(list(value.values()))
    elif isinstance(getattr(value, "__self__", None), torch.nn.Module):  # its method
        yield value.__self__


def _precise(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A copy in float64, in which a tensor that is a parameter of a module still is the same object."""
    memo: dict[int, Any] = {}
    for tensor in _tensors((args, kwargs)):
        if not isinstance(tensor, torch.nn.Parameter):
            wide = tensor.is_floating_point() and tensor.dtype.itemsize < 8
            copied = (tensor.detach().double() if wide else tensor.detach().clone()).requires_grad_(
                tensor.requires_grad
            )
            memo[id(tensor)] = copied
    args, kwargs = copy.deepcopy((args, kwargs), memo)
    for module in _modules((args, kwargs)):
        for part in (*module.parameters(), *module.buffers()):
            if part.is_floating_point():
                part.data = part.data.double()
    for tensor in _tensors((args, kwargs)):
        if isinstance(tensor, torch.nn.Parameter) and tensor.is_floating_point():
            tensor.data = tensor.data.double()
    return args, kwargs


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
