"""A wrong gradient in more detail: which known mistake would give just this, and what it is like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._observation import Comparison, wrong
from gradsmith.check._reference import Reference
from gradsmith.check._sample import Sample
from gradsmith.check.probes._alike import close, conjugate, nonzero

__all__ = ["described"]

Grads = Sequence[torch.Tensor | None]


def described(
    bench: Bench,
    reference: Reference,
    sample: Sample,
    trial: Trial,
    expected: Grads | None,
    comparisons: Sequence[Comparison],
) -> dict[str, Any]:
    """What an observation of a wrong gradient says beside the numbers.

    "alternatives": known mistakes; "incoming": shape and dtype of the incoming gradients; "passed": the inputs whose
    gradient is an incoming gradient as it came; "identity": those whose derivative is.
    """
    return {
        "alternatives": _alternatives(bench, reference, sample, trial, expected, comparisons),
        "incoming": [_shape(g) for g in trial.cotangents],
        "passed": _like_incoming(bench, sample, trial, trial.grads),
        "identity": _like_incoming(bench, sample, trial, expected or []),
    }


def _like_incoming(bench: Bench, sample: Sample, trial: Trial, grads: Sequence[torch.Tensor | None]) -> list[str]:
    """The inputs whose gradient is an incoming gradient as it came."""
    return [
        sample.names[i]
        for i in bench.judged(sample)
        if i < len(grads) and any(close(grads[i], g) for g in trial.cotangents)
    ]


def _alternatives(
    bench: Bench,
    reference: Reference,
    sample: Sample,
    trial: Trial,
    expected: Sequence[torch.Tensor | None] | None,
    comparisons: Sequence[Comparison],
) -> list[str]:
    """Known mistakes that would give exactly the gradient that was got."""
    if expected is None:
        return []
    found = []
    judged = bench.judged(sample)
    tries: list[tuple[str, Any]] = []
    for k in range(len(trial.cotangents)):
        if len(trial.cotangents) > 1:
            without = [torch.zeros_like(g) if j == k else g for j, g in enumerate(trial.cotangents)]
            tries.append((f"output ignored: {k}", without))
    means = [g.mean().expand_as(g) if g.numel() else g for g in trial.cotangents]
    tries.append(("incoming gradient replaced by its mean", means))
    firsts = [g.reshape(-1)[:1].expand(g.numel()).reshape(g.shape) if g.numel() else g for g in trial.cotangents]
    tries.append(("incoming gradient replaced by its first element", firsts))
    tries.append(("incoming gradient replaced by ones", [torch.ones_like(g) for g in trial.cotangents]))
    tries.append(("incoming gradient replaced by its sum", [g.sum().expand_as(g) for g in trial.cotangents]))
    tries.append(("incoming gradient conjugated", [g.conj().resolve_conj() for g in trial.cotangents]))
    for words, cotangents in tries:
        if words.endswith("conjugated") and not any(g.is_complex() for g in trial.cotangents):
            continue
        other = reference.gradient(sample, trial, [g.contiguous() for g in cotangents])
        if other is None:
            continue
        bad = [i for i, c in zip(judged, comparisons, strict=True) if wrong(c)]
        if all(close(trial.grads[i], other[i]) for i in bad):
            found.append(words)
    if any(g.is_complex() for g in trial.cotangents):
        mirrored = reference.gradient(sample, trial, [g.conj().resolve_conj() for g in trial.cotangents])
        bad = [i for i, c in zip(judged, comparisons, strict=True) if wrong(c)]
        if mirrored is not None and all(close(trial.grads[i], conjugate(mirrored[i])) for i in bad):
            found.append("derivative not conjugated")
    for i, c in zip(judged, comparisons, strict=True):
        if not wrong(c):
            continue
        for j in sample.needed:
            if i != j and close(trial.grads[i], expected[j]) and nonzero(expected[j]):
                found += [f"gradient of {sample.names[j]} given to {sample.names[i]}"]
    return found


def _shape(tensor: torch.Tensor) -> dict[str, Any]:
    return {"shape": list(tensor.shape), "dtype": str(tensor.dtype).removeprefix("torch.")}
