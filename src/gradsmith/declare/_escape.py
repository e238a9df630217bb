"""Where a computation leaves autograd, and how what follows from it is refused.

`x.detach()`, `x.numpy()`, `x.item()`, a block under `no_grad` or a kernel without a derivative all give the right
value and drop the derivative. In a backward that is fine, until somebody differentiates the gradient: the second
derivative would silently miss a term. So a backward that may be differentiated runs under an `EscapeWatch`; where
something escaped, its result goes through `refuse`, which raises when, and only when, it is differentiated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradsmith.declare._private import (
    forward_ad,
    functorch_is_active,
    is_differentiated_by_transform,
    without_python_apply,
)
from gradsmith.errors import GradientError

__all__ = ["OPAQUE_CALLS", "EscapeWatch", "is_tracked", "refuse"]

# Calls that draw random numbers.
_RANDOM_CALL = re.compile(
    "(rand(n|int|perm|om)?|bernoulli|multinomial|normal|poisson|uniform|exponential|geometric|cauchy|log_normal"
    "|rrelu|gumbel_softmax|(alpha_|feature_|feature_alpha_|native_)?dropout)(_like)?_?"
)

# Calls that hand the numbers to something that is not PyTorch.
OPAQUE_CALLS = frozenset({"numpy", "item", "tolist", "data_ptr", "__array__", "__float__", "__int__", "__complex__"})


def is_tracked(value: Any) -> bool:
    """Whether a derivative with respect to this tensor is being recorded, backward or forward."""
    if not isinstance(value, torch.Tensor):
        return False
    if functorch_is_active():
        return is_differentiated_by_transform(value)
    if value.requires_grad:
        return True
    return forward_ad._current_level >= 0 and forward_ad.unpack_dual(value).tangent is not None


class EscapeWatch(TorchFunctionMode):
    """Records the first call through which tracked tensors went in and an untracked value came out."""

    def __init__(self) -> None:
        super().__init__()
        self.escaped: str | None = None
        self.opaque = False
        self.random = False
        self._switched_off = False  # by the code that runs, with no_grad

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        # What is asked here goes to no other watch: with one in every nested call it would double at each level.
        with torch._C.DisableTorchFunction():
            self._look(_name(func), [*args, *(kwargs or {}).values()], result)
        return result

    def _look(self, name: str, given: list[Any], result: Any) -> None:
        if name in OPAQUE_CALLS:
            self.opaque = True
        if _RANDOM_CALL.fullmatch(name):
            self.random = True
        if name == "_set_grad_enabled":
            self._switched_off = not given[0]
        if not torch.is_grad_enabled() and not self._switched_off:
            return  # inside the forward of an autograd.Function, which has a derivative of its own
        if self.escaped is None and _any(is_tracked, given) and _loses(name, result):
            self.escaped = name


def _name(func: Any) -> str:
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":  # an attribute such as x.data
        return getattr(getattr(func, "__self__", None), "__name__", name)
    return str(name)


def _any(predicate: Any, values: Sequence[Any]) -> bool:
    return any(_any(predicate, v) if isinstance(v, (list, tuple)) else predicate(v) for v in values)


def _loses(name: str, result: Any) -> bool:
    if name in OPAQUE_CALLS or name in ("detach", "detach_", "data"):
        return True
    if name.startswith("new_") or name.endswith("_like"):
        return False  # the values of the arguments do not matter, so there is no derivative to lose
    results = result if isinstance(result, (list, tuple)) else (result,)
    return any(
        isinstance(r, torch.Tensor) and (r.is_floating_point() or r.is_complex()) and not is_tracked(r) for r in results
    )


class _Refuse(torch.autograd.Function):
    """The identity on its first tensors; raises as soon as anything asks for their derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(message: str, count: int, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple([t.detach() for t in tensors[:count]])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.message = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise GradientError(ctx.message)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise GradientError(ctx.message)


_apply_refuse = without_python_apply(_Refuse)


def refuse(message: str, results: Sequence[Any], causes: Sequence[Any]) -> list[Any]:
    """The same results, tied to every tensor in `causes`, so that differentiating them raises `message`.

    Without that tie a result that lost its graph would count as a constant, and its derivative as zero.
    """
    tensors = [r for r in results if isinstance(r, torch.Tensor)]
    if not tensors:
        return list(results)
    causes = [c for c in causes if isinstance(c, torch.Tensor)]
    refused = iter(_apply_refuse(message, len(tensors), *tensors, *causes))
    return [next(refused) if isinstance(r, torch.Tensor) else r for r in results]
