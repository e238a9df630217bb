"""The private PyTorch that the recorder touches.

It stands apart from `declare/_private.py` because it runs inside of programs that are not ours: importing that module
imports torch.compile too, a second that the recorded program may never have spent. `tests/declare/test_private.py`
watches over these names as over those.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._C import _functorch
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd.function import Function, _SingleLevelFunction
from torch.utils._python_dispatch import _disable_current_modes

__all__ = ["aside", "is_unreal", "operator_call", "unseen", "unwatch", "watch"]

Around = Callable[[type[Function], tuple[Any, ...], dict[str, Any]], Callable[[], None] | None]


def watch(around: Around) -> None:
    """Call `around(cls, args, kwargs)` before every call of an autograd.Function, and what it returns after it.

    `Function.apply` ends in `super().apply(...)`, looked up at each call: a method put between the two is met by
    `f = X.apply` too that was taken before, and by classes made at any time.
    """

    def apply(cls: type[Function], *args: Any, **kwargs: Any) -> Any:
        done = aside(around, cls, args, kwargs)
        result = super(_SingleLevelFunction, cls).apply(*args, **kwargs)  # type: ignore[misc]
        if done is not None:
            aside(done)
        return result

    _passed_over(apply)
    _SingleLevelFunction.apply = classmethod(apply)  # type: ignore[attr-defined]


def unwatch() -> None:
    """Take the method away again; that of torch below it was never touched."""
    if "apply" in vars(_SingleLevelFunction):
        del _SingleLevelFunction.apply  # type: ignore[attr-defined]


def aside(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function of ours where torch.compile, which looks at every frame once a graph broke, does not see it."""
    before = _eval_frame.set_eval_frame(None)
    try:
        return function(*args)
    finally:
        _eval_frame.set_eval_frame(before)


def _passed_over(function: Any) -> None:
    """Have torch.compile leave a frame alone, but not what is called from it. (Its own way to say so imports it.)"""
    skip = _eval_frame._FrameExecStrategy(_eval_frame._FrameAction.SKIP, _eval_frame._FrameAction.DEFAULT)
    _eval_frame.set_code_exec_strategy(function.__code__, skip)


_eval_frame: Any = torch._C._dynamo.eval_frame
_passed_over(aside)


def is_unreal(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds no values of its own: it belongs to a transform, to a trace, or to no device."""
    return (
        _functorch.is_functorch_wrapped_tensor(tensor)
        or _functorch.is_legacy_batchedtensor(tensor)
        or isinstance(tensor, FakeTensor)
        or torch._is_functional_tensor(tensor)
        or tensor.device.type == "meta"
        or (tensor.is_cuda and torch.cuda.is_current_stream_capturing())
    )


class unseen:
    """While tensors are copied: no mode of the program sees it, and it leaves no history."""

    def __init__(self) -> None:
        self._parts: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> None:
        for part in (torch._C.DisableTorchFunction(), _disable_current_modes(), torch.no_grad()):
            part.__enter__()
            self._parts.append(part)

    def __exit__(self, *error: Any) -> None:
        while self._parts:
            self._parts.pop().__exit__(*error)


def operator_call(cls: type[Function], args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...], dict[str, Any]] | None:
    """Name and arguments of the operator whose registered gradient torch runs as this Function; None for others.

    However an operator is called and registered, its gradient goes through a class that torch makes for it. The last
    argument is a note of torch's, that of operators with lists of tensors is preceded by the flattened arguments.
    """
    if cls.__module__ != "torch._library.autograd" or not cls.__name__.startswith("GeneratedBackwardFor_"):
        return None
    forward = inspect.getclosurevars(cls.forward).nonlocals
    if hasattr(args[-1], "input_spec"):
        args = tuple(torch.utils._pytree.tree_unflatten(list(args[:-1]), args[-1].input_spec))
        forward = inspect.getclosurevars(forward["orig_forward"]).nonlocals
    operator = forward["op"]
    name = f"{operator.namespace}::{operator._opname}"
    if operator._overloadname != "default":
        name += f".{operator._overloadname}"
    return name, args[:-1], dict(args[-1].keyword_only_args)
