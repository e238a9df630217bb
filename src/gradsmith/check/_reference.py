"""What a gradient should be: by the declared surrogate, by the forward's own operations, or by differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import inner
from gradsmith.check._sample import Sample
from gradsmith.check._slope import Slope, slope
from gradsmith.check._subject import fitted, plain_forward
from gradsmith.declare._private import applied_as

__all__ = ["Reference"]

Grads = list[torch.Tensor | None]


class Reference:
    """The best way to know the true gradient of a subject, found once and used on every sample.

    Attributes:
        kind: "declared", "forward" (differentiated by autograd as ordinary operations) or "differences".
        function: What is differentiated by autograd; None for differences.
        forward: What differences are taken of.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        subject = bench.subject
        self.function: Callable[..., Any] | None = None
        self.forward: Callable[..., Any] | None = None  # None: the subject itself
        self.kind = "differences"
        if subject.intent is not None:
            self.kind = "declared"
            self.function = self.forward = _intended(bench)
        elif subject.plain is not None:
            self.kind, self.function = "forward", subject.plain
        elif subject.kind in ("Module", "function"):
            self.kind, self.function = "forward", _inside_plain(subject.call)

    def trial(
        self,
        sample: Sample,
        trial: Trial,
        cotangents: Sequence[torch.Tensor] | None = None,
        create_graph: bool = False,
    ) -> Trial | None:
        """The reference by autograd, on the outputs and incoming gradients of a trial; None where there is none."""
        if self.function is None:
            return None
        found = self.bench.run(sample, function=_on_copies(self.function), backward=False)
        if not found.ok or not found.outputs:
            return None
        if self.kind == "declared" and len(found.outputs) != len(trial.outputs):
            places = list(range(len(trial.tracked)))  # the declared function returns what has a gradient
        else:
            places = trial.tracked
        wanted = trial.attached
        if len(found.outputs) <= max(places, default=0):
            return None
        pairs = [(found.outputs[p], w) for p, w in zip(places, wanted, strict=True)]
        if any(f.shape != w.shape for f, w in pairs):
            return None
        if any(f.is_floating_point() != w.is_floating_point() for f, w in pairs):
            return None
        given = trial.cotangents if cotangents is None else cotangents
        use = [k for k, (f, _) in enumerate(pairs) if f.requires_grad]
        found.outputs = [f for f, _ in pairs]
        found.tracked = [k for k in range(len(pairs)) if found.outputs[k].requires_grad]
        given = [given[k].to(found.outputs[k].dtype) for k in use]
        return found if self.bench.backward(found, given, create_graph=create_graph) else None

    def gradient(self, sample: Sample, trial: Trial, cotangents: Sequence[torch.Tensor] | None = None) -> Grads | None:
        found = self.trial(sample, trial, cotangents)
        return None if found is None else found.grads

    def slope(self, sample: Sample, trial: Trial, directions: dict[int, torch.Tensor]) -> Slope | None:
        """The numeric slope along a direction of what the gradient should be the derivative of."""
        outputs = trial.tracked
        if self.kind == "declared" and self.function is not None:
            found = self.bench.evaluate(sample, self.forward)
            if found is not None and len(found) != len(trial.outputs):
                outputs = list(range(len(trial.tracked)))
        return slope(self.bench, sample, directions, trial.cotangents, outputs, self.forward)

    def agrees(self, sample: Sample, trial: Trial, grads: Grads) -> bool | None:
        """Whether a gradient is the slope along a random direction of each input; None where no slope is known."""
        known = False
        for i in sample.needed:
            if sample.tensors[i].numel() == 0:
                continue
            direction = self.direction(sample, i)
            measured = self.slope(sample, trial, {i: direction})
            if measured is None:
                continue
            known = True
            claimed = inner(grads[i], direction)
            scale = _norm(grads[i]) * _norm(direction) / max(1.0, direction.numel() ** 0.5)
            if abs(claimed - measured.value) > 20 * measured.error + 1e-5 * max(abs(measured.value), scale):
                return False
        return True if known else None

    def direction(self, sample: Sample, i: int, key: str = "d") -> torch.Tensor:
        """A random direction of an input, as large as its elements are."""
        tensor = sample.tensors[i]
        size = float(tensor.abs().double().mean()) if tensor.numel() else 1.0
        return self.bench.random_like(tensor, f"{key}{i}") * min(max(size, 1e-3), 1e3)


def _norm(tensor: torch.Tensor | None) -> float:
    return 0.0 if tensor is None else inner(tensor, tensor) ** 0.5


def _on_copies(function: Callable[..., Any]) -> Callable[..., Any]:
    """A forward that may write to its inputs, run on copies of those that require grad."""

    def call(*args: Any, **kwargs: Any) -> Any:
        copied = [a.clone() if isinstance(a, torch.Tensor) and a.requires_grad else a for a in args]
        return function(*copied, **kwargs)

    return call


def _intended(bench: Bench) -> Callable[..., Any]:
    intent = bench.subject.intent
    assert intent is not None
    call = fitted(intent, bench.subject.parameter_names)
    if not bench.subject.parameters:
        return call
    if isinstance(intent, torch.nn.Module):
        return lambda parameters, *args, **kwargs: torch.func.functional_call(intent, parameters, args, kwargs)
    return lambda parameters, *args, **kwargs: call(*args, **kwargs)


def _inside_plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A callable in which every `Class.apply` runs the forward of the class as ordinary operations."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with applied_as(plain_forward):
            return function(*args, **kwargs)

    return call
