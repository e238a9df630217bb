"""The gradient beside what it should be, on one sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import compare, inner
from gradsmith.check._nodes import declared_by_us
from gradsmith.check._observation import Comparison, wrong
from gradsmith.check._reference import Reference
from gradsmith.check._sample import Sample
from gradsmith.check._slope import one_sided
from gradsmith.check.probes._described import described

__all__ = ["Judge"]

_MOST_DIRECTIONS = 48  # inputs up to this size are measured element by element
_FEW = 4  # directions for larger ones
_KINKS = 24  # elements that are looked at for a kink


class Judge:
    """Compares gradients with the reference and writes the result down."""

    def __init__(self, bench: Bench, reference: Reference) -> None:
        self.bench, self.reference = bench, reference
        self.trusted = False  # whether the reference by autograd stood up to numeric slopes once
        self.cut = False  # whether it did not, because the forward leaves autograd on its way
        self.largest = 0.0  # element of the true gradient on the author's sample

    def __call__(
        self,
        sample: Sample,
        *,
        law: str = "value",
        condition: str = "eager",
        floor: float = 0.0,
        by_autograd_only: bool = False,
        cotangents: Any = None,
        **data: Any,
    ) -> bool | None:
        """Whether the gradient is right on a sample; None where that cannot be said there.

        Args:
            sample: The inputs.
            law: Under which name it is written down.
            condition: How it was run.
            floor: Absolute difference that is always allowed.
            by_autograd_only: Whether numeric differences are left out where there is no other reference.
            cotangents: The incoming gradients, if not random ones.
            data: Further data of the observation.
        """
        bench = self.bench
        trial = bench.run(sample, cotangents=cotangents)
        if trial.forward_failed or (trial.ok and not trial.finite):
            return None
        if not trial.ok:
            if law == "neighbour" and self._nobody_can(sample, trial):
                return None
            bench.see(law, sample, condition, failure=trial.failure, **data)
            return False
        expected, kind = self._expected(sample, trial)
        if expected is not None:
            comparisons = self._compared(sample, trial, expected, floor)
            places = [i for i, c in zip(bench.judged(sample), comparisons, strict=True) if wrong(c)]
            if places and self._subgradient(sample, trial, expected, places, floor):
                comparisons = [{**c, "error": 0.0, "kink": True} if wrong(c) else c for c in comparisons]
        elif by_autograd_only:
            return None
        else:
            kind = "differences"
            measured = self._measured(sample, trial)
            if measured is None:
                return None
            comparisons = measured
        bad = any(wrong(c) for c in comparisons)
        if law == "value":
            self.largest = max((c["scale"] for c in comparisons), default=1.0)
        if bad and not trial.failure:
            data |= described(bench, self.reference, sample, trial, expected, comparisons)
        bench.see(law, sample, condition, reference=kind, comparisons=comparisons, **data)
        return not bad

    def _nobody_can(self, sample: Sample, trial: Trial) -> bool:
        """Whether autograd, where it can differentiate the forward at all, fails on the sample too."""
        return self.trusted and self.reference.trial(sample, trial) is None

    # --- what is right ----------------------------------------------------------------------------

    def _expected(self, sample: Sample, trial: Trial) -> tuple[list[torch.Tensor | None] | None, str]:
        """The true gradient by autograd, if it stands up to a numeric slope or was declared."""
        found = None if self.cut else self.reference.trial(sample, trial)
        if found is None:
            return None, ""
        grads = found.grads
        if any(g is not None and not torch.isfinite(g).all() for g in grads):
            return None, ""
        if self.reference.kind == "declared" or declared_by_us(found.attached):
            return grads, "declared"
        if self.trusted and not any(wrong(c) for c in self._compared(sample, trial, grads, 0.0)):
            return grads, "forward"
        agrees = self.reference.agrees(sample, trial, grads)
        if agrees is False and not self._only_kinks(sample, trial, grads):
            self.cut = self.cut or not self.trusted
            return None, ""
        self.trusted = self.trusted or agrees is True
        return grads, "forward"

    def _only_kinks(self, sample: Sample, trial: Trial, grads: Sequence[torch.Tensor | None]) -> bool:
        """Whether autograd's gradient differs from the slope only because the sample lies on kinks."""
        nudged = self._nudged(sample)
        again = self.bench.run(nudged, cotangents=lambda o: trial.cotangents)
        if not again.ok:
            return False
        found = self.reference.trial(nudged, again)
        return found is not None and self.reference.agrees(nudged, again, found.grads) is True

    def _nudged(self, sample: Sample) -> Sample:
        """The sample moved a little off special points."""
        needed = set(sample.needed)
        moved = [
            t + 1e-2 * (t.abs().mean() + 1e-3) * self.bench.random_like(t, f"nudge{i}").clamp(-2, 2)
            if i in needed
            else t
            for i, t in enumerate(sample.tensors)
        ]
        return sample.with_tensors(sample.name, moved)

    def _compared(
        self, sample: Sample, trial: Trial, expected: Sequence[torch.Tensor | None], floor: float
    ) -> list[Comparison]:
        scale = max((float(e.abs().max()) for e in expected if e is not None and e.numel()), default=0.0)
        absolute = floor + 1e-3 * self.bench.loose * scale  # an input with a tiny gradient beside large ones
        return [
            compare(
                sample.names[i],
                trial.grads[i],
                _zeros(sample, i) if expected[i] is None else expected[i],
                tolerance=absolute,
                relative=self.bench.loose,
            )
            for i in self.bench.judged(sample)
        ]

    def _measured(self, sample: Sample, trial: Trial) -> list[Comparison] | None:
        """Compared with numeric slopes: along each element of a small input, in random directions of a large one."""
        comparisons = []
        for i in sample.needed:
            found = self._measured_input(sample, trial, i)
            if found is not None:
                comparisons.append(found)
        return comparisons or None

    def _measured_input(self, sample: Sample, trial: Trial, i: int) -> Comparison | None:
        tensor = sample.tensors[i]
        each = tensor.numel() <= _MOST_DIRECTIONS and not tensor.is_complex()
        count = tensor.numel() if each else _FEW if tensor.numel() < 100_000 else 2
        got, expected, errors = [], [], []
        size = max(float(tensor.abs().double().mean()) if tensor.numel() else 1.0, 1e-3)
        for k in range(count):
            if each:
                direction = torch.zeros(tensor.numel(), dtype=tensor.dtype, device=tensor.device)
                direction[k] = size
                direction = direction.reshape(tensor.shape)
            else:
                direction = self.reference.direction(sample, i, f"m{k}.")
            measured = self.reference.slope(sample, trial, {i: direction})
            if measured is None:
                return None
            unit = size if each else 1.0
            got.append(inner(trial.grads[i], direction) / unit)
            expected.append(measured.value / unit)
            errors.append(20 * measured.error / unit)
        if not each:  # a kink near one direction must not decide
            worst = sorted(errors)[: max(1, len(errors) * 3 // 4)]
            errors = [e if e in worst else float("inf") for e in errors]
        shape = tensor.shape if each else (count,)
        found = compare(
            sample.names[i],
            torch.tensor(got, dtype=torch.float64).reshape(shape),
            torch.tensor(expected, dtype=torch.float64).reshape(shape),
            tolerance=torch.tensor(errors, dtype=torch.float64).nan_to_num(posinf=1e300)
            + 5 * self.bench.loose * self.largest,
            relative=max(1e-4, 5 * self.bench.loose),
        )
        found["missing"] = trial.grads[i] is None
        found["along"] = "elements" if each else "random directions"
        return found

    # --- kinks ------------------------------------------------------------------------------------

    def _subgradient(
        self,
        sample: Sample,
        trial: Trial,
        expected: Sequence[torch.Tensor | None],
        places: Sequence[int],
        floor: float,
    ) -> bool:
        """Whether every element that differs lies at a kink, between the slopes on its two sides."""
        return all(self._subgradient_of(sample, trial, expected[i], i, floor) for i in places)

    def _subgradient_of(
        self, sample: Sample, trial: Trial, expected: torch.Tensor | None, i: int, floor: float
    ) -> bool:
        got = trial.grads[i]
        if got is None or expected is None or got.shape != expected.shape or got.is_complex():
            return False
        difference = (got - expected).abs().reshape(-1)
        limit = self.bench.loose * float(expected.abs().max()) + floor
        differing = (difference > limit).nonzero().reshape(-1).tolist()
        if len(differing) > _KINKS:
            order = torch.randperm(len(differing), device="cpu", generator=self.bench.generator("kinks")).tolist()
            differing = [differing[k] for k in order[:_KINKS]]
        for place in differing:
            unit = torch.zeros(got.numel(), dtype=got.dtype, device=got.device)
            unit[place] = 1
            sides = one_sided(
                self.bench,
                sample,
                {i: unit.reshape(got.shape)},
                trial.cotangents,
                trial.tracked,
                self.reference.forward,
            )
            if sides is None:
                return False
            low, high = min(sides), max(sides)
            value = float(got.reshape(-1)[place])
            slack = 1e-4 * max(abs(low), abs(high), 1e-6)
            if high - low < 10 * slack or not low - slack <= value <= high + slack:
                return False
        return True


def _zeros(sample: Sample, i: int) -> torch.Tensor:
    return torch.zeros_like(sample.tensors[i])
