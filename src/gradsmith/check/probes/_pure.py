"""The subject as a pure function, and a transform of it beside what eager autograd gives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import compare
from gradsmith.check._observation import Comparison
from gradsmith.check._sample import Sample

__all__ = ["Pure", "Tensors", "attempt", "pure_of"]

Tensors = tuple[torch.Tensor, ...]


class Pure:
    """The subject as a function of the tensors a gradient is wanted for, returning the outputs that have one."""

    def __init__(self, bench: Bench, sample: Sample, base: Trial) -> None:
        self.bench, self.sample, self.base = bench, sample, base

    def __call__(self, *wanted: torch.Tensor) -> Tensors:
        rest = iter(wanted)
        tensors = [next(rest) if n else t for t, n in zip(self.sample.tensors, self.sample.needs, strict=True)]
        if self.bench.through_clones:
            tensors = [t.clone() for t in tensors]
        taken = Trial()
        self.bench._take(taken, self.bench.call(self.sample, tensors))
        return tuple(taken.outputs[p] for p in self.base.tracked)

    @property
    def inputs(self) -> Tensors:
        return tuple(self.sample.tensors[i] for i in self.sample.needed)

    @property
    def names(self) -> list[str]:
        return [self.sample.names[i] for i in self.sample.needed]

    def gradients(self) -> list[torch.Tensor | None]:
        return [self.base.grads[i] for i in self.sample.needed]


def pure_of(bench: Bench, sample: Sample | None = None) -> Pure | None:
    base = bench.run(sample)
    return Pure(bench, sample or bench.sample, base) if base.ok and base.finite else None


def attempt(
    bench: Bench,
    transform: str,
    work: Callable[[], Sequence[Any]],
    expected: Sequence[Any],
    names: Sequence[str],
    **data: Any,
) -> bool:
    """Run a transform, compare, and write it down; whether it ran and was right."""
    holder = Trial()
    found: Sequence[Any] = []
    with bench.guarded(holder, transform):
        found = work()
    if holder.failure is not None and holder.failure["type"] == "hang":
        bench.skip(transform, "it took too long; raise the limit with timeout=")
        return False
    if holder.failure is not None:
        bench.see("transform", transform=transform, failure=holder.failure, **data)
        return False
    comparisons: list[Comparison] = [
        compare(n, f, e, relative=max(bench.tight, 1e-8)) for n, f, e in zip(names, found, expected, strict=True)
    ]
    bench.see("transform", transform=transform, comparisons=comparisons, **data)
    return all(c["error"] <= c["tolerance"] for c in comparisons)
