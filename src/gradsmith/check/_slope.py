"""Numeric slopes of a forward, with an estimate of their error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from gradsmith.check._bench import Bench
from gradsmith.check._compare import inner
from gradsmith.check._sample import Sample

__all__ = ["Slope", "one_sided", "slope"]

Function = Callable[..., object] | None

_STEPS = {torch.float64: (1e-2, 1e-3, 1e-4, 1e-5), torch.float32: (1e-1, 3e-2, 1e-2, 3e-3)}
_MANY = 1024  # elements; beyond, fewer step sizes are tried
_EPSILON = {torch.float64: 2e-16, torch.float32: 1e-7}


@dataclass(frozen=True)
class Slope:
    """A derivative along a direction and how far it may be off."""

    value: float
    error: float


def slope(
    bench: Bench,
    sample: Sample,
    directions: dict[int, torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    outputs: Sequence[int],
    function: Function = None,
) -> Slope | None:
    """The derivative of the sum of cotangent times output along a direction of some of the inputs.

    Central differences of two step sizes, extrapolated to zero; of several pairs the one whose members agree best.
    None where the forward raises or is not finite nearby.
    """
    along = _Line(bench, sample, directions, cotangents, outputs, function)
    steps: tuple[float, ...] = _STEPS.get(sample.dtype, (0.3, 0.1))
    if sample.size > _MANY:
        steps = steps[1:3]
    epsilon = _EPSILON.get(sample.dtype, 1e-2)
    best: Slope | None = None
    for step in steps:
        coarse, fine = along.central(step), along.central(step / 2)
        if coarse is None or fine is None:
            continue
        value = (4 * fine - coarse) / 3
        rounding = 4 * epsilon * along.magnitude / step
        error = abs(value - fine) + rounding
        if best is None or error < best.error:
            best = Slope(value, error)
        if error <= 1e-9 * max(abs(value), along.magnitude * 1e-3):
            break
    return best


def one_sided(
    bench: Bench,
    sample: Sample,
    directions: dict[int, torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    outputs: Sequence[int],
    function: Function = None,
) -> tuple[float, float] | None:
    """The slopes just before and just after the sample along a direction; they differ at a kink."""
    along = _Line(bench, sample, directions, cotangents, outputs, function)
    step = 1e-6 if sample.dtype == torch.float64 else 1e-2
    middle = along(0.0)
    values = [along(t) for t in (-step, -step / 2, step / 2, step)]
    if middle is None or any(v is None for v in values):
        return None
    before2, before1, after1, after2 = (v for v in values if v is not None)
    before = 2 * (middle - before1) / (step / 2) - (middle - before2) / step
    after = 2 * (after1 - middle) / (step / 2) - (after2 - middle) / step
    return before, after


class _Line:
    """Cotangent times output along a line through the sample."""

    def __init__(
        self,
        bench: Bench,
        sample: Sample,
        directions: dict[int, torch.Tensor],
        cotangents: Sequence[torch.Tensor],
        outputs: Sequence[int],
        function: Function,
    ) -> None:
        self.bench, self.sample, self.directions = bench, sample, directions
        self.cotangents, self.outputs, self.function = cotangents, outputs, function
        self.magnitude = 0.0

    def __call__(self, t: float) -> float | None:
        moved = [
            x + t * self.directions[i].to(x.dtype) if i in self.directions else x
            for i, x in enumerate(self.sample.tensors)
        ]
        outputs = self.bench.evaluate(self.sample.with_tensors(self.sample.name, moved), self.function)
        if outputs is None or len(outputs) <= max(self.outputs, default=-1):
            return None
        total = 0.0
        for place, g in zip(self.outputs, self.cotangents, strict=False):
            if outputs[place].shape != g.shape or not torch.isfinite(outputs[place]).all():
                return None
            total += inner(g, outputs[place])
            self.magnitude = max(self.magnitude, inner(g.abs(), outputs[place].abs()))
        return total

    def central(self, step: float) -> float | None:
        after, before = self(step), self(-step)
        return None if after is None or before is None else (after - before) / (2 * step)
