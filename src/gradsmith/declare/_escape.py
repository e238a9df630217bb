"""Where a computation leaves autograd, and how what follows from it is refused.

`x.detach()`, `x.numpy()`, `x.item()`, a block under `no_grad` or a kernel without a derivative all give the right
value and drop the derivative. In a backward that is fine, until somebody differentiates the gradient: the second
derivative would silently miss a term. So a backward that may be differentiated runs under an `EscapeWatch`; where
a number that lost its derivative flows into the result, that goes through `refuse`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from gradsmith.declare._private import (
    functorch_is_active,
    has_tangent,
    recording,
    requires_grad_at_any_level,
    unseen_by_modes,
    version_of,
    wrapped_for_forward_mode,
)

__all__ = ["OPAQUE_CALLS", "EscapeWatch", "is_tracked"]

# Calls that draw random numbers.
_RANDOM_CALL = re.compile(
    "(rand(n|int|perm|om)?|bernoulli|multinomial|normal|poisson|uniform|exponential|geometric|cauchy|log_normal"
    "|rrelu|gumbel_softmax|(alpha_|feature_|feature_alpha_|native_)?dropout)(_like)?_?"
)

# Calls that write to their first argument: add_, __iadd__, __setitem__.
_IN_PLACE = re.compile("[a-z]\\w*_|__i(add|sub|mul|truediv|floordiv|mod|pow|matmul|and|or|xor|lshift|rshift)__")

# Calls that hand the numbers to something that is not PyTorch.
OPAQUE_CALLS = frozenset(
    ["numpy", "item", "tolist", "data_ptr", "__array__", "__dlpack__", "__float__", "__int__", "__complex__"]
)


def is_tracked(value: Any, *, surely: bool = False) -> bool:
    """Whether a derivative with respect to this tensor is being recorded, backward or forward.

    Under torch.func nobody can ask a tensor for its tangent. There, while a forward mode runs, every tensor that is
    wrapped for a derivative counts, unless it must be sure.
    """
    if not isinstance(value, torch.Tensor):
        return False
    if functorch_is_active():
        return requires_grad_at_any_level(value) or (not surely and wrapped_for_forward_mode(value))
    return value.requires_grad or has_tangent(value)


class EscapeWatch(TorchFunctionMode):
    """Follows tensors that lost the derivative of what they were computed from.

    A tensor is *cut off* when tracked tensors went into a call and it came out untracked. That is harmless if all that
    happens to it are calls without a derivative, such as a comparison. It is an escape if something that is recorded
    is computed from it, if it is in the result, or if nothing is seen to happen to it: it may have gone anywhere.
    (Inside the forward of an autograd.Function everything is cut off, but what that returns is tracked again.)
    """

    def __init__(self) -> None:
        super().__init__()
        self.opaque = False  # whether numbers were handed to something that is not PyTorch
        self.random = False  # whether random numbers were drawn
        self._escaped: str | None = None  # the call through which a derivative was lost
        self._cut_off: dict[int, _CutOff] = {}  # by id of the tensor

    def escaped_into(self, results: Iterable[Any]) -> str | None:
        """The call through which the results, or what they were computed from, lost a derivative."""
        unseen = (c.why for c in self._cut_off.values() if not c.seen and not is_tracked(c.tensor, surely=True))
        return self._escaped or self._why(results) or next(unseen, None)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # What is asked here goes to no other watch: with one in every nested call it would double at each level.
        with unseen_by_modes():
            before = self._before(_name(func), list(_flat([*args, *(kwargs or {}).values()])))
        result = func(*args, **(kwargs or {}))
        with unseen_by_modes():
            recorded_itself = func is torch.autograd.grad and (kwargs or {}).get("create_graph")
            if not recorded_itself and before.name not in _VALUE_FREE and not before.name.endswith("_like"):
                self._after(before, result)
        return result

    def _before(self, name: str, given: list[Any]) -> _Before:
        """What is known of a call before it runs; it may change what it is given."""
        self.random = self.random or _RANDOM_CALL.fullmatch(name) is not None
        detaching = name in _DETACHING or torch.is_inference_mode_enabled()
        tracked = _any_tracked(given, surely=not detaching)
        return _Before(name, given, [version_of(v) for v in given], detaching, tracked, self._why(given))

    def _after(self, before: _Before, result: Any) -> None:
        """Draw conclusions from a call."""
        name, given, why = before.name, before.given, before.why
        for value in given:
            if id(value) in self._cut_off:
                self._cut_off[id(value)].seen = True
        if name in OPAQUE_CALLS:
            self.opaque = True
            self._escaped = self._escaped or (name if _any_tracked(given) else why)
            return
        if name == "data":
            self._escaped = self._escaped or name  # whatever is done to it is not seen where it came from
        written = before.written(result)
        if not torch.is_grad_enabled() and _any_tracked(written, surely=True):
            self._escaped = self._escaped or name  # written to behind the back of its graph
        outputs = [r for r in _flat([result, *written]) if _differentiable(r)]
        if why is not None and outputs and recording():
            self._escaped = self._escaped or why
        for output in outputs:
            if (before.tracked or why is not None) and (before.detaching or not is_tracked(output, surely=True)):
                self._cut_off[id(output)] = _CutOff(output, why or name)

    def _why(self, values: Iterable[Any]) -> str | None:
        """Why one of the values is cut off, if one is."""
        for value in values:
            if id(value) in self._cut_off and not is_tracked(value, surely=True):
                return self._cut_off[id(value)].why
        return None


@dataclass
class _Before:
    """A call that is about to run."""

    name: str
    given: list[Any]
    versions: list[int | None]
    detaching: bool  # whether what comes out is cut off by what the call is
    tracked: bool  # whether a derivative of something given is recorded
    why: str | None  # why something given is cut off already

    def written(self, result: Any) -> list[Any]:
        """What the call has written to."""
        if self.name == "__set__":  # an attribute such as x.data = y
            return self.given[:1]
        in_place = _IN_PLACE.fullmatch(self.name) is not None
        return [
            value
            for value, version in zip(self.given, self.versions, strict=True)
            if version_of(value) != version or (in_place and value is result)  # batches do not count writes
        ]


@dataclass
class _CutOff:
    tensor: torch.Tensor  # kept, so that its id stays its own
    why: str  # the call that cut it off
    seen: bool = False  # in a call


_DETACHING = frozenset(["detach", "detach_", "data", "new_tensor"])

# Calls whose result does not depend on the numbers they are given, or (the last two) is the same tensor once more.
_VALUE_FREE = frozenset(["new_empty", "new_zeros", "new_ones", "new_full", "_unpack_dual", "_make_dual"])


def _name(func: Any) -> str:
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":  # an attribute such as x.data
        return getattr(getattr(func, "__self__", None), "__name__", name)
    return str(name)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def _any_tracked(values: list[Any], *, surely: bool = False) -> bool:
    return any(is_tracked(value, surely=surely) for value in values)


def _differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())
