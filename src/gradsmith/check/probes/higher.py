"""The derivative of the gradient, in both positions, and forward mode beside backward."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import compare, inner
from gradsmith.check._observation import Comparison, wrong
from gradsmith.check._reference import Reference
from gradsmith.check._sample import is_symmetric
from gradsmith.declare._private import forward_ad

__all__ = ["double_backward", "forward_mode"]


def double_backward(bench: Bench, reference: Reference) -> None:
    """Differentiate the gradient, with an incoming gradient that requires grad and with one that does not.

    What is right is measured: the gradient itself, moved along a direction, by central differences.
    """
    for position in ("the incoming gradient requires grad", "the incoming gradient does not require grad"):
        _one_position(bench, reference, position, position.endswith("gradient requires grad"))


def _one_position(bench: Bench, reference: Reference, position: str, with_gradient: bool) -> None:
    sample = bench.sample
    trial = bench.run(backward=False)
    if not trial.ok:
        return
    g = [c.requires_grad_(with_gradient) for c in bench.cotangents(trial.attached)]
    if not bench.backward(trial, g, create_graph=True):
        bench.see("second order", condition=position, failure=trial.failure, status="refused", step="first")
        return
    # An input for which None is returned has no gradient, and its author says so: it has no second one either.
    judged = [i for i in bench.judged(sample) if trial.grads[i] is not None]
    weights = {i: _direction(bench, sample.tensors[i], f"v{i}") for i in judged}
    grads = {i: trial.grads[i] for i in judged if trial.grads[i] is not None}
    tracked = {i: grad for i, grad in grads.items() if grad is not None and grad.requires_grad}
    wanted = [trial.leaves[i] for i in judged] + (g if with_gradient else [])
    found: Sequence[torch.Tensor | None] = [None] * len(wanted)
    if tracked:
        total = sum((grad * weights[i].conj()).sum().real for i, grad in tracked.items())
        holder = Trial()
        with bench.guarded(holder, "second backward"):
            found = torch.autograd.grad(total, wanted, retain_graph=True, allow_unused=True)  # type: ignore[arg-type]
            if all(f is None for f in found) and bench.subject.kind == "Function":
                total.backward()  # type: ignore[union-attr]  # only this way the refusal of once_differentiable is met
        if holder.failure is not None:
            bench.see("second order", condition=position, failure=holder.failure, status="refused", step="second")
            return
    comparisons: list[Comparison] = []
    names = [sample.names[i] for i in judged]
    for place, i in enumerate(judged):
        measured = _along(bench, trial, g, weights, i, None)
        if measured is not None:
            comparisons.append(_compared(bench, names[place], found[place], *measured))
    if with_gradient:
        for k in range(len(g)):
            measured = _along(bench, trial, g, weights, None, k)
            if measured is not None:
                name = f"the incoming gradient of {trial.names[trial.tracked[k]]}"
                comparisons.append(_compared(bench, name, found[len(names) + k], *measured))
    if any(wrong(c) for c in comparisons) and _like_the_reference(bench, reference, trial, g, weights, found):
        comparisons = [{**c, "error": 0.0} for c in comparisons]
    silent = not tracked or all(f is None for f in found)
    status = "right" if not any(wrong(c) for c in comparisons) else "silent" if silent else "wrong"
    bench.see("second order", condition=position, comparisons=comparisons, silent=silent, status=status)


def _direction(bench: Bench, tensor: torch.Tensor, key: str) -> torch.Tensor:
    """A random direction; of a symmetric matrix a symmetric one, as a function of such has no other derivative."""
    found = bench.random_like(tensor, key)
    return (found + found.mT) / 2 if is_symmetric(tensor) else found


def _like_the_reference(
    bench: Bench,
    reference: Reference,
    trial: Trial,
    g: Sequence[torch.Tensor],
    weights: dict[int, torch.Tensor],
    found: Sequence[torch.Tensor | None],
) -> bool:
    """Whether the reference, differentiated twice by autograd, gives the same.

    A gradient declared by a surrogate with constants in it, or passed on through one, need not be the derivative of
    what it is numerically.
    """
    sample = bench.sample
    fresh = [c.detach().requires_grad_(c.requires_grad) for c in g]
    twin = reference.trial(sample, trial, fresh, create_graph=True)
    if twin is None:
        return False
    judged = list(weights)
    grads = {i: twin.grads[i] for i in judged}
    if any(_largest(_difference(trial.grads[i], g)) > bench.loose * max(_largest(g), 1e-9) for i, g in grads.items()):
        return False  # the forward leaves autograd on its way, or the gradient is wrong: it is no reference
    tracked = {i: grad for i, grad in grads.items() if grad is not None and grad.requires_grad}
    wanted = [twin.leaves[i] for i in judged] + [c for c in fresh if c.requires_grad]
    expected: Sequence[torch.Tensor | None] = [None] * len(wanted)
    if tracked:
        holder = Trial()
        with bench.guarded(holder, "second backward"):
            total = sum((grad * weights[i].conj()).sum().real for i, grad in tracked.items())
            expected = torch.autograd.grad(total, wanted, allow_unused=True)  # type: ignore[arg-type]
        if holder.failure is not None:
            return False
    floor = 1e-3 * bench.loose * max((_largest(grad) for grad in grads.values()), default=0.0)
    return all(
        _largest(_difference(a, b)) <= bench.loose * _largest(b) + floor for a, b in zip(found, expected, strict=True)
    )


def _difference(a: torch.Tensor | None, b: torch.Tensor | None) -> torch.Tensor | None:
    return a - b if a is not None and b is not None else b if a is None else a


def _largest(tensor: torch.Tensor | None) -> float:
    return float(tensor.abs().max()) if tensor is not None and tensor.numel() else 0.0


def _compared(
    bench: Bench,
    name: str,
    found: torch.Tensor | None,
    direction: torch.Tensor,
    value: float,
    error: float,
    scale: float,
) -> Comparison:
    got = torch.tensor(inner(found, direction), dtype=torch.float64)
    expected = torch.tensor(value, dtype=torch.float64)
    tolerance = 20 * error + scale * (1e-6 if bench.dtype == torch.float64 else 2e-2)
    found_comparison = compare(
        name, got, expected, tolerance=tolerance, relative=1e-3 if bench.dtype == torch.float64 else 5e-2
    )
    found_comparison["missing"] = found is None
    found_comparison["along"] = "a random direction"
    return found_comparison


def _along(
    bench: Bench,
    trial: Trial,
    g: Sequence[torch.Tensor],
    weights: dict[int, torch.Tensor],
    i: int | None,
    k: int | None,
) -> tuple[torch.Tensor, float, float, float] | None:
    """How the weighted gradient changes along a direction of input i or of incoming gradient k."""
    sample = bench.sample
    target = sample.tensors[i] if i is not None else g[k or 0].detach()
    if target.numel() == 0:
        return None
    size = min(max(float(target.abs().double().mean()), 1e-3), 1e3)
    direction = _direction(bench, target, f"u{i}{k}") * size
    plain = [c.detach() for c in g]
    largest = 0.0

    def weighted(t: float) -> float | None:
        nonlocal largest
        moved, incoming = list(sample.tensors), list(plain)
        if i is not None:
            moved[i] = moved[i] + t * direction
        else:
            incoming[k or 0] = incoming[k or 0] + t * direction
        again = bench.run(sample.with_tensors(sample.name, moved), cotangents=lambda o: incoming)
        if not again.ok or again.tracked != trial.tracked:
            return None
        values = [inner(w, again.grads[j]) for j, w in weights.items()]
        largest = max([largest, *[abs(v) for v in values]])
        total = sum(values)
        return total if abs(total) < float("inf") else None

    best: tuple[float, float] | None = None
    epsilon = 2e-16 if bench.dtype == torch.float64 else 1e-7
    for step in (1e-3, 1e-4, 1e-5) if bench.dtype == torch.float64 else (3e-2, 1e-2):
        values = [weighted(t) for t in (step, -step, step / 2, -step / 2)]
        if any(v is None for v in values):
            continue
        a, b, c, d = (v for v in values if v is not None)
        coarse, fine = (a - b) / (2 * step), (c - d) / step
        value = (4 * fine - coarse) / 3
        error = abs(value - fine) + 4 * epsilon * largest / step
        if best is None or error < best[1]:
            best = value, error
        if error <= 1e-7 * max(abs(value), largest):
            break
    return None if best is None else (direction, *best, largest)


def forward_mode(bench: Bench) -> None:
    """The tangent of the output is what backward says: the incoming gradient sees the same number either way."""
    sample = bench.sample
    base = bench.run()
    if not base.ok:
        return
    comparisons: list[Comparison] = []
    for i in sample.needed:
        tangent = bench.random_like(sample.tensors[i], f"t{i}")
        trial = Trial()
        pushed = 0.0
        with bench.guarded(trial, "forward mode"), forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(t.clone(), tangent) if j == i else t.clone() for j, t in enumerate(sample.tensors)
            ]
            result = Trial()
            bench._take(result, bench.call(sample, duals))
            for p, c in zip(base.tracked, base.cotangents, strict=True):
                moved = forward_ad.unpack_dual(result.outputs[p]).tangent
                pushed += inner(c, moved)
        if trial.failure is not None:
            bench.see("transform", transform="forward mode", failure=trial.failure)
            return
        pulled = inner(base.grads[i], tangent)
        scale = (inner(base.grads[i], base.grads[i]) * inner(tangent, tangent)) ** 0.5
        comparisons.append(
            {
                **compare(
                    sample.names[i],
                    torch.tensor(pushed, dtype=torch.float64),
                    torch.tensor(pulled, dtype=torch.float64),
                    tolerance=bench.tight * scale,
                    relative=bench.tight,
                ),
                "along": "a random tangent",
            }
        )
    bench.see("transform", transform="forward mode", comparisons=comparisons)
