"""What the report draws: a walk through the sample, and the Jacobian of a small function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import numbers
from gradsmith.check._reference import Reference

__all__ = ["draw"]

_POINTS = 41
_MOST = 48  # rows and columns of a Jacobian that are drawn


def draw(bench: Bench, reference: Reference) -> None:
    trial = bench.run()
    if bench.fast or not trial.ok or not trial.finite or bench.given.size > 20_000:
        return
    for i in bench.sample.needed[:3]:
        if bench.sample.tensors[i].numel() and not bench.sample.tensors[i].is_complex():
            _curve(bench, reference, trial, i)
            _jacobian(bench, reference, trial, i)


def _curve(bench: Bench, reference: Reference, trial: Trial, i: int) -> None:
    """One element of an input moved to and fro: the summed outputs, the gradient, the numeric slope."""
    sample = bench.sample
    place = sample.tensors[i].numel() // 2
    middle = float(sample.tensors[i].reshape(-1)[place])
    reach = 2 * max(float(sample.tensors[i].abs().double().mean()), 0.1)
    xs, values, gradients, slopes = [], [], [], []
    for x in torch.linspace(middle - reach, middle + reach, _POINTS, dtype=torch.float64).tolist():
        moved = sample.tensors[i].clone().reshape(-1)
        moved[place] = x
        here = sample.with_tensors(
            sample.name, [moved.reshape(t.shape) if j == i else t for j, t in enumerate(sample.tensors)]
        )
        one = bench.run(here, cotangents=lambda o: [torch.ones_like(c) for c in o])
        grad = one.grads[i] if one.ok else None
        if not one.ok or not one.finite or grad is None:
            continue
        unit = torch.zeros_like(moved)
        unit[place] = 1
        slope = reference.slope(here, one, {i: unit.reshape(sample.tensors[i].shape)})
        if slope is None:
            continue
        xs.append(x)
        values.append(float(sum(float(o.detach().double().sum()) for o in one.attached)))
        gradients.append(float(grad.reshape(-1)[place]))
        slopes.append(slope.value)
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
        one = bench.run(cotangents=lambda o, c=cotangents: c)
        if not one.ok:
            return
        got.append(_row(one.grads[i], columns))
        true = reference.gradient(sample, one)
        expected.append(_row(true[i], columns) if true is not None else _measured(bench, reference, one, i))
    bench.see("picture", kind="jacobian", input=sample.names[i], output=trial.names[trial.tracked[0]], got=got, expected=expected)


def _row(grad: torch.Tensor | None, columns: int) -> list[float]:
    return [0.0] * columns if grad is None else numbers(grad)


def _measured(bench: Bench, reference: Reference, trial: Trial, i: int) -> Sequence[float]:
    tensor = bench.sample.tensors[i]
    found = []
    for place in range(tensor.numel()):
        unit = torch.zeros(tensor.numel(), dtype=tensor.dtype)
        unit[place] = 1
        slope = reference.slope(bench.sample, trial, {i: unit.reshape(tensor.shape)})
        found.append(slope.value if slope is not None else float("nan"))
    return found


