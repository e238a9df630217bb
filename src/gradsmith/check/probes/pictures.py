"""What the report draws: a walk through the sample, and the Jacobian of a small function."""

from __future__ import annotations

from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import numbers
from gradsmith.check._reference import Reference
from gradsmith.check._sample import Sample

__all__ = ["draw"]

_POINTS = 25
_MOST = 24  # rows and columns of a Jacobian that are drawn


def draw(bench: Bench, reference: Reference) -> None:
    """A curve and a Jacobian for the first inputs, where they are small enough to be looked at."""
    trial = bench.run()
    if bench.fast or not trial.ok or not trial.finite or bench.given.size > 20_000:
        return
    if any(o.is_complex() for o in trial.attached):
        return
    for i in bench.sample.needed[:2]:
        if bench.sample.tensors[i].numel() and not bench.sample.tensors[i].is_complex():
            _curve(bench, trial, reference.forward, i)
            _jacobian(bench, reference, trial, i)


def _curve(bench: Bench, trial: Trial, forward: Any, i: int) -> None:
    """One element of an input moved to and fro: the summed outputs, the gradient, the numeric slope."""
    sample, tensor = bench.sample, bench.sample.tensors[i]
    place = tensor.numel() // 2
    middle = float(tensor.reshape(-1)[place])
    reach = 2 * max(float(tensor.abs().double().mean()), 0.1)
    step = 1e-4 * reach if sample.dtype == torch.float64 else 1e-2 * reach

    def at(x: float) -> Sample:
        moved = tensor.clone().reshape(-1)
        moved[place] = x
        return sample.with_tensors(
            sample.name, [moved.reshape(t.shape) if j == i else t for j, t in enumerate(sample.tensors)]
        )

    def height(x: float, function: Any) -> float | None:
        outputs = bench.evaluate(at(x), function)
        if outputs is None:
            return None
        places = trial.tracked if len(outputs) == len(trial.outputs) else range(len(outputs))
        return float(sum(float(outputs[p].double().sum()) for p in places))

    xs, values, gradients, slopes = [], [], [], []
    for x in torch.linspace(middle - reach, middle + reach, _POINTS, dtype=torch.float64).tolist():
        one = bench.run(at(x), cotangents=lambda o: [torch.ones_like(c) for c in o])
        grad = one.grads[i] if one.ok else None
        after, before = height(x + step, forward), height(x - step, forward)
        if grad is None or not one.finite or after is None or before is None:
            continue
        xs.append(x)
        values.append(float(sum(float(o.detach().double().sum()) for o in one.attached)))
        gradients.append(float(grad.reshape(-1)[place]))
        slopes.append((after - before) / (2 * step))
    if len(xs) > 4:
        bench.see(
            "picture",
            kind="curve",
            input=sample.names[i],
            element=place,
            output="sum of the outputs",
            x=xs,
            forward=values,
            gradient=gradients,
            slope=slopes,
        )


def _jacobian(bench: Bench, reference: Reference, trial: Trial, i: int) -> None:
    sample = bench.sample
    output = trial.attached[0]
    rows, columns = output.numel(), sample.tensors[i].numel()
    if not rows or rows > _MOST or columns > _MOST or output.is_complex():
        return
    got: list[list[Any]] = []
    expected: list[list[Any]] = []
    for row in range(rows):
        cotangents = [torch.zeros_like(c) for c in trial.attached]
        cotangents[0].reshape(-1)[row] = 1
        one = bench.run(cotangents=cotangents)
        if not one.ok:
            return
        got.append(_row(one.grads[i], columns))
        true = reference.gradient(sample, one)
        if true is None:
            return
        expected.append(_row(true[i], columns))
    bench.see(
        "picture",
        kind="jacobian",
        input=sample.names[i],
        output=trial.names[trial.tracked[0]],
        got=got,
        expected=expected,
    )


def _row(grad: torch.Tensor | None, columns: int) -> list[float]:
    return [0.0] * columns if grad is None else numbers(grad)
