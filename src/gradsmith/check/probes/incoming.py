"""Laws about the incoming gradient and about memory: linearity, layout, and that nothing is written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import compare
from gradsmith.check._nodes import custom_nodes, saved_tensors
from gradsmith.check._sample import Sample, is_float
from gradsmith.declare._private import version_of

__all__ = ["input_layout", "layout", "layouts_of", "linearity", "mutation"]

Tensors = list[torch.Tensor]


def linearity(bench: Bench) -> None:
    """The gradient of a sum of incoming gradients is the sum of their gradients."""
    first = bench.run()
    second = bench.run(cotangents=lambda o: bench.cotangents(o, "h"))
    if not (first.ok and second.ok):
        return
    g, h = first.cotangents, second.cotangents
    same = [compare(n, b, a, relative=bench.tight) for n, a, b in _pairs(bench.sample, first, second)]
    bench.see("incoming ignored", comparisons=same)
    trials: list[tuple[str, Tensors, float, float]] = [
        ("sum of two", [2 * a - b for a, b in zip(g, h, strict=True)], 2.0, -1.0),
        ("1000 times as large", [1000 * a for a in g], 1000.0, 0.0),
        ("1000 times smaller", [a / 1000 for a in g], 0.001, 0.0),
        ("zero", [torch.zeros_like(a) for a in g], 0.0, 0.0),
    ]
    for condition, cotangents, a, b in trials:
        trial = bench.run(cotangents=cotangents)
        if not trial.ok:
            bench.see("linearity", condition=condition, failure=trial.failure)
            continue
        comparisons = []
        for i in bench.sample.needed:
            x, y = first.grads[i], second.grads[i]
            if x is None or y is None or not (x.isfinite().all() and y.isfinite().all()):
                continue
            largest = float(x.abs().max()) if x.numel() else 0.0
            got, expected = trial.grads[i], a * x + b * y
            comparisons.append(
                compare(
                    bench.sample.names[i], got, expected, tolerance=abs(a) * bench.tight * largest, relative=bench.tight
                )
            )
        bench.see("linearity", condition=condition, comparisons=comparisons)


def _largest(grads: Sequence[torch.Tensor | None]) -> float:
    return max((float(g.abs().max()) for g in grads if g is not None and g.numel()), default=0.0)


def _pairs(sample: Sample, a: Trial, b: Trial) -> Iterator[tuple[str, torch.Tensor | None, torch.Tensor | None]]:
    for i in sample.needed:
        yield sample.names[i], a.grads[i], b.grads[i]


def layouts_of(shape: torch.Size) -> dict[str, Callable[[torch.Tensor], torch.Tensor]]:
    """Ways to lay a tensor out in memory, each a function that gives the same or a constant value in that layout."""
    ways: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {}
    if not all(shape):
        return ways
    if shape.numel() > 1:
        ways["expanded from one number"] = lambda t: t.reshape(-1)[:1].clone().reshape([1] * t.dim()).expand(t.shape)
    if len(shape) >= 2:
        ways["transposed"] = lambda t: (
            t.permute(*reversed(range(t.dim()))).contiguous().permute(*reversed(range(t.dim())))
        )
        if shape[0] > 1:
            ways["expanded along dim 0"] = lambda t: t[:1].clone().expand(t.shape)
        if shape[-1] > 1:
            ways["expanded along the last dim"] = lambda t: t[..., :1].clone().expand(t.shape)
    if len(shape) >= 3:
        ways["last dims swapped"] = lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2)
    if len(shape) == 4:
        ways["channels last"] = lambda t: t.contiguous(memory_format=torch.channels_last)
    if len(shape) >= 1:
        ways["every second element"] = _every_second
        ways["a slice of a larger tensor"] = _slice
    return ways


def _every_second(t: torch.Tensor) -> torch.Tensor:
    wide = torch.full((*t.shape[:-1], 2 * t.shape[-1]), 7, dtype=t.dtype, device=t.device)
    view = wide[..., ::2]
    return view.copy_(t)


def _slice(t: torch.Tensor) -> torch.Tensor:
    """Offset, and rows further apart than they are long."""
    wide = torch.full((t.shape[0] + 2, *[n + 3 for n in t.shape[1:]]), 7, dtype=t.dtype, device=t.device)
    view = wide[tuple(slice(1, 1 + n) for n in t.shape)]
    return view.copy_(t)


def layout(bench: Bench) -> None:
    """The gradient does not depend on how the incoming gradient lies in memory."""
    base = bench.run()
    if not base.ok:
        return
    ways: dict[str, None] = {}
    for output in base.attached:
        ways.update(dict.fromkeys(layouts_of(output.shape)))
    for way in ways:
        laid = [layouts_of(g.shape).get(way, torch.clone)(g) for g in base.cotangents]
        flat = bench.run(cotangents=[x.contiguous().clone() for x in laid])
        trial = bench.run(cotangents=laid)
        if not flat.ok:
            continue
        if not trial.ok:
            bench.see("layout of the incoming gradient", condition=way, failure=trial.failure)
            continue
        bench.see(
            "layout of the incoming gradient",
            condition=way,
            comparisons=[
                compare(n, b, a, tolerance=bench.tight * _largest(base.grads), relative=bench.tight)
                for n, a, b in _pairs(bench.sample, flat, trial)
            ],
        )


def input_layout(bench: Bench) -> None:
    """Outputs and gradients do not depend on how the inputs lie in memory."""
    sample = bench.sample
    if bench.random:
        bench.skip("layout of the inputs", "random numbers are drawn in the order of memory")
        return
    base = bench.run()
    if not base.ok:
        return
    ways: dict[str, None] = {}
    for tensor in sample.tensors:
        ways.update(dict.fromkeys(layouts_of(tensor.shape)))
    for way in ways:
        laid = [
            t if way.startswith("expanded") and not is_float(t) else layouts_of(t.shape).get(way, torch.clone)(t)
            for t in sample.tensors
        ]
        flat = bench.run(leaves=_leaves([t.contiguous().clone() for t in laid], sample.needs))
        trial = bench.run(leaves=_leaves(laid, sample.needs))
        if not flat.ok or trial.forward_failed or not flat.finite:
            continue
        if not trial.ok:
            bench.see("layout of the inputs", condition=way, failure=trial.failure)
            continue
        outputs = [
            compare(n, b, a, relative=bench.tight)
            for n, a, b in zip(flat.names, flat.outputs, trial.outputs, strict=False)
        ]
        floor = bench.tight * _largest(base.grads)
        grads = [compare(n, b, a, tolerance=floor, relative=bench.tight) for n, a, b in _pairs(sample, flat, trial)]
        bench.see("layout of the inputs", condition=way, comparisons=grads, outputs=outputs)


def _leaves(tensors: Sequence[torch.Tensor], needs: Sequence[bool]) -> Tensors:
    return [t.detach().requires_grad_(n) if n else t.detach() for t, n in zip(tensors, needs, strict=True)]


def mutation(bench: Bench) -> None:
    """Neither forward nor backward writes to what belongs to others."""
    sample = bench.sample
    leaves = _leaves([t.clone() for t in sample.tensors], sample.needs)
    trial = bench.run(leaves=leaves, backward=False)
    if not trial.ok:
        return
    written = [
        {"what": "input", "name": name, "returned": any(o.data_ptr() == now.data_ptr() for o in trial.outputs)}
        for name, before, now in zip(sample.names, sample.tensors, leaves, strict=True)
        if version_of(now) or not _same(before, now)
    ]
    bench.see("mutation", condition="forward", written=written)
    saved = [t for node in custom_nodes(trial.outputs) for t in saved_tensors(node) if isinstance(t, torch.Tensor)]
    watched: list[tuple[str, str, torch.Tensor]] = [
        *[("input", n, t) for n, t in zip(sample.names, leaves, strict=True)],
        *[("output", n, t) for n, t in zip(trial.names, trial.outputs, strict=True)],
        *[("saved tensor", f"saved tensor {k}", t) for k, t in enumerate(saved)],
    ]
    before = [t.detach().clone() for _, _, t in watched]
    cotangents = bench.cotangents(trial.attached)
    untouched = [g.clone() for g in cotangents]
    bench.backward(trial, cotangents)
    written = [
        {"what": what, "name": name}
        for (what, name, now), then in zip(watched, before, strict=True)
        if not _same(then, now.detach())
    ]
    written += [
        {"what": "incoming gradient", "name": f"the incoming gradient of {trial.names[p]}"}
        for k, (p, a, b) in enumerate(zip(trial.tracked, untouched, cotangents, strict=True))
        if k in trial.overwritten or not _same(a, b)  # the version counts views of another shape, too
    ]
    if any(w["what"] == "input" for w in written):  # a saved input is the same memory: one name is enough
        written = [w for w in written if w["what"] != "saved tensor"]
    bench.see("mutation", condition="backward", written=written)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())
