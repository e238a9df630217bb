"""A gradient declared by hand: the rule behind `custom_gradient`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradsmith.declare._asked import Asked
from gradsmith.declare._autocast import Autocast, autocast_of, under
from gradsmith.declare._escape import EscapeWatch, is_tracked
from gradsmith.declare._forward import Call, Forward
from gradsmith.declare._functions import Tensors, eager_form, full_form
from gradsmith.declare._intermediates import intermediates_of, push_forward
from gradsmith.declare._linear import scales_with_gradient
from gradsmith.declare._lowered import lowered, worth_lowering
from gradsmith.declare._match import Target, match, target_of
from gradsmith.declare._private import (
    any_autocast_enabled,
    being_traced,
    forward_mode_active,
    is_legacy_batched,
    not_compiled,
    transforms_active,
    version_of,
    vjp,
)
from gradsmith.declare._refuse import refuse
from gradsmith.declare._tree import LEAF, Structure, unflatten
from gradsmith.errors import DeclarationError, GradientError

__all__ = ["Explicit"]

_TENSOR = object()  # stands where a tensor was, which is kept elsewhere

Gradients = list[Any]  # a tensor or None for each input


class _Saved:
    """What a call keeps for its backward beside tensors; those go through `save_for_backward`."""

    call: Call
    numbers: list[int]  # what the backward asked for
    known: list[Any]  # its values, _TENSOR for those that were saved
    targets: list[Target | None]  # per input, what its gradient must look like
    autocast: Autocast | None = None  # that of the forward
    inputs: list[Any]  # the inputs that are no tensors, where intermediates may need the forward again

    @property
    def device(self) -> str:
        """The kind of device the inputs are on."""
        return next((target[2].type for target in self.targets if target is not None), "cpu")

    def restore(self, tensors: Tensors) -> list[Any]:
        """What the backward asked for."""
        rest = iter(tensors)
        return [next(rest) if value is _TENSOR else value for value in self.known]


class Explicit:
    """A forward and its backward."""

    has_carriers = False

    def __init__(self, forward: Forward, *, linear: bool) -> None:
        self.forward = forward
        self.linear = linear  # as the author says
        self.asked: Asked | None = None
        self.eager = eager_form(self, forward.name)
        self.full = full_form(self)

    def set_backward(self, backward: Callable[..., Any]) -> None:
        if self.asked is not None:
            raise DeclarationError(f"{self.forward.name} already has a backward; a function has one gradient")
        self.asked = Asked(self.forward, backward)
        # From now on, without the check that `compute` makes.
        self.compute = self.forward.__call__  # type: ignore[method-assign, assignment]

    def compute(self, call: Call, inputs: Tensors) -> tuple[torch.Tensor, ...]:
        if self.asked is None:
            name = self.forward.name
            raise DeclarationError(f"{name} has no backward yet; declare one with @{name}.backward")
        return self.forward(call, inputs)

    def carriers(self, values: Sequence[Any]) -> tuple[list[torch.Tensor], Structure]:
        return [], None

    def plain(self, call: Call, leaves: Tensors) -> tuple[torch.Tensor, ...]:
        """Without a gradient."""
        return self.compute(call, leaves)

    def save(self, call: Call, inputs: Tensors, outputs: Tensors) -> tuple[_Saved, list[int]]:
        assert self.asked is not None
        saved = _Saved()
        saved.call = call
        saved.numbers = numbers = self.asked.numbers(call, len(inputs))
        saved.targets = [target_of(v) for v in inputs]
        if any_autocast_enabled():
            saved.autocast = autocast_of(inputs)
        saved.known = known = []
        tensors = []
        count = len(inputs)
        for number in numbers:
            value = inputs[number] if number < count else outputs[number - count]
            if isinstance(value, torch.Tensor):
                tensors.append(number)
                value = _TENSOR
            known.append(value)
        if self.forward.keep:
            saved.inputs = [_TENSOR if isinstance(v, torch.Tensor) else v for v in inputs]
        return saved, tensors

    # backward -------------------------------------------------------------------------------------------------

    def pull(self, saved: _Saved, tensors: Tensors, grads: Tensors, needs: Sequence[bool]) -> Gradients:
        count, restored = saved.call.count, saved.restore(tensors)
        results: Gradients = [None] * len(saved.targets)
        if saved.call.refusal is not None:
            raise GradientError(saved.call.refusal)
        if any(g is not None for g in grads[:count]):
            with under(saved.autocast, saved.device):
                results = self._watched(saved, restored, grads[:count], needs)
        if any(g is not None for g in grads[count:]):
            pulled = self._pull_intermediates(saved, restored, grads[count:])
            results = [b if a is None else a if b is None else a + b for a, b in zip(results, pulled, strict=True)]
        return results

    def _watched(self, saved: _Saved, restored: list[Any], grads: Tensors, needs: Sequence[bool]) -> Gradients:
        """The declared backward. If it may be differentiated and leaves autograd on the way, it refuses that."""
        causes = [*grads, *restored]
        recording = torch.is_grad_enabled() or forward_mode_active()
        if not (recording and any(is_tracked(c) for c in causes)):
            return self._declared(saved, restored, grads, needs)
        return self._refusing_escapes(saved, restored, grads, needs)

    @not_compiled
    def _refusing_escapes(self, saved: _Saved, restored: list[Any], grads: Tensors, needs: Sequence[bool]) -> Gradients:
        with EscapeWatch() as watch:
            results = self._declared(saved, restored, grads, needs)
        escaped = watch.escaped_into(results)
        if escaped is None:
            return results
        return refuse(_refusal(self.forward.name, f"{escaped}()"), results, [*grads, *restored])

    def _declared(self, saved: _Saved, restored: list[Any], grads: Tensors, needs: Sequence[bool]) -> Gradients:
        """The declared backward; on plain tensors where it cannot take those of a transform."""
        try:
            return self._run(saved, restored, grads, needs)
        except Exception as error:  # the author's backward may raise anything
            if not worth_lowering(error):
                raise
        count = len(grads)
        return list(
            lowered(
                lambda values: self._run(saved, list(values[count:]), values[:count], needs),
                [*grads, *restored],
                _refusal(self.forward.name, "something that torch.func cannot follow"),
            )
        )

    def _run(self, saved: _Saved, restored: list[Any], grads: Tensors, needs: Sequence[bool]) -> Gradients:
        assert self.asked is not None
        call = saved.call
        # The batches of is_grads_batched do not count writes: the author gets copies, and may do what they like.
        grads = [g.clone() if g is not None and is_legacy_batched(g) else g for g in grads]
        incoming = grads[0] if call.output is LEAF else unflatten(call.output, iter(grads), constants=False)
        given = [*grads, *restored]
        before = [version_of(t) for t in given]
        result = self.asked.call(call, incoming, restored)
        for i, version in enumerate(before):
            if version is not None and version_of(given[i]) != version:
                self._refuse_modified(call, i - len(grads))
        return match(self.forward, call, result, saved.targets, needs, cast=saved.autocast is not None)

    def _refuse_modified(self, call: Call, asked: int) -> None:
        assert self.asked is not None
        what = "the incoming gradient" if asked < 0 else repr(self.asked.names(call)[asked])
        raise GradientError(
            f"the backward of {self.forward.name} modified {what} in place, but others use that tensor too; make a new "
            f"one (grad * 2, not grad.mul_(2))"
        )

    def _pull_intermediates(self, saved: _Saved, restored: list[Any], grads: Tensors) -> Gradients:
        inputs = list(saved.inputs)
        for number, value in zip(saved.numbers, restored, strict=True):
            if number < len(inputs):
                inputs[number] = value
        names = saved.call.leaf_names(self.forward.signature.names)
        missing = [n for n, value in zip(names, inputs, strict=True) if value is _TENSOR]
        if missing:
            raise GradientError(
                f"the gradient of {self.forward.name} cannot be differentiated again: its backward uses intermediates, "
                f"and their derivative needs {', '.join(missing)}. Let the backward of {self.forward.name} ask for "
                f"{', '.join(missing)} as well"
            )
        wanted = [i for i, target in enumerate(saved.targets) if target is not None]
        given = [i for i, g in enumerate(grads) if g is not None]
        function = intermediates_of(self.forward, saved.call, inputs, wanted, given)
        again, pull = vjp(function, *[inputs[i] for i in wanted])
        self._refuse_changed(saved, restored, dict(zip(given, again, strict=True)))
        results: Gradients = [None] * len(inputs)
        for i, gradient in zip(wanted, pull(tuple([grads[i] for i in given])), strict=True):
            results[i] = gradient
        return results

    def _refuse_changed(self, saved: _Saved, restored: list[Any], again: dict[int, torch.Tensor]) -> None:
        """A forward that reads changing state makes other intermediates the second time."""
        if transforms_active() or torch.compiler.is_compiling():
            return  # numbers cannot be compared there
        first = len(saved.inputs) + saved.call.count
        for number, value in zip(saved.numbers, restored, strict=True):
            other = again.get(number - first)
            if other is not None and not torch.allclose(value, other, rtol=0, atol=0, equal_nan=True):
                raise GradientError(
                    f"the gradient of {self.forward.name} cannot be differentiated again: its forward gives other "
                    f"intermediates when it runs a second time. Pass in what they depend on"
                )

    # forward mode ---------------------------------------------------------------------------------------------

    def push(self, saved: _Saved, inputs: Tensors, outputs: Tensors, tangents: Tensors) -> Gradients:
        """Forward mode: the backward maps gradients linearly, and tangents go through its transpose."""
        if saved.call.refusal is not None:
            raise GradientError(saved.call.refusal)
        flat = [*inputs, *outputs]
        restored = [flat[number] for number in saved.numbers]
        count = saved.call.count
        moved = [i for i, t in enumerate(tangents) if t is not None and saved.targets[i] is not None]
        smooth = [i for i in range(count) if target_of(outputs[i]) is not None]

        self._require_linear(saved, restored, [outputs[i] if i in smooth else None for i in range(count)])

        def backward(*some: torch.Tensor) -> tuple[torch.Tensor, ...]:
            grads: list[Any] = [None] * count
            for i, g in zip(smooth, some, strict=True):
                grads[i] = g
            with under(saved.autocast, saved.device):
                gradients = self._watched(saved, restored, grads, [t is not None for t in tangents])
            return tuple([g if g is not None else torch.zeros_like(inputs[i]) for i in moved for g in [gradients[i]]])

        _, transposed = vjp(backward, *[torch.zeros_like(outputs[i]) for i in smooth])
        results: list[torch.Tensor | None] = [None] * len(outputs)
        for i, tangent in zip(smooth, transposed(tuple([tangents[i] for i in moved])), strict=True):
            results[i] = tangent
        asked = [n - len(inputs) - count for n in saved.numbers]
        kept = sorted({i for i in asked if i >= 0 and target_of(outputs[count + i]) is not None})
        if kept:
            function = intermediates_of(self.forward, saved.call, inputs, moved, kept)
            try:
                pushed = push_forward(function, [inputs[i] for i in moved], [tangents[i] for i in moved])
            except GradientError as error:
                saved.call.refusal = str(error)  # only a backward of this same call would need those tangents
                pushed = [torch.zeros_like(outputs[count + i]) for i in kept]
            for i, tangent in zip(kept, pushed, strict=True):
                results[count + i] = tangent
        return results

    def _require_linear(self, saved: _Saved, restored: list[Any], grads: Tensors) -> None:
        linear = self.linear
        if linear and not (torch.compiler.is_compiling() or being_traced()):  # numbers are not known there
            needs = [True] * len(saved.targets)
            linear = scales_with_gradient(
                lambda values, grads: self._run(saved, list(values), grads, needs), restored, grads
            )
        if not linear:
            raise GradientError(
                f"{self.forward.name} has no forward mode: its backward is not linear in the incoming gradient: there "
                f"is no matrix that a tangent could be multiplied with. Use reverse mode (backward, grad, jacrev)"
            )


def _refusal(name: str, call: str) -> str:
    return (
        f"the gradient of {name} cannot be differentiated, again or for forward mode: its backward calls {call}, "
        f"which drops the derivative of what it is given. Write that backward with differentiable torch operations"
    )
