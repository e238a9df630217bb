"""Large and tiny numbers, low precision, autocast, and the forward beside a reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import compare
from gradsmith.check._neighbours import in_unit_interval
from gradsmith.check._observation import Comparison
from gradsmith.check._reference import Reference
from gradsmith.check._sample import Sample
from gradsmith.check._subject import fitted

__all__ = ["autocast", "declared", "finite", "given_precision", "low_precision", "reference_forward"]


_WHOLE = 50_000  # elements


def finite(bench: Bench, reference: Reference) -> None:
    """Where the outputs are finite and the true gradient is, the gradient is."""
    single = bench.given if bench.given.dtype.itemsize <= 4 else bench.given.to(torch.float32)
    samples = [_scaled(single, f) for f in (0.0, 1e-4, 10.0, 100.0, 1000.0)]
    if bench.dtype == torch.float64:
        samples += [_scaled(bench.sample, f) for f in (0.0, 100.0)]
        half = bench.given.to(torch.float16)
        if not any(t.is_complex() for t in half.tensors):
            samples += [_scaled(half, f) for f in (1.0, 20.0)]
    for sample in samples:
        trial = bench.run(sample, cotangents=lambda o: [_bounded(c) for c in bench.cotangents(o)])
        if not trial.ok or not trial.finite:
            continue
        bad = [i for i in sample.needed if (g := trial.grads[i]) is not None and not torch.isfinite(g).all()]
        if not bad:
            bench.see("finite", sample, str(sample.dtype).removeprefix("torch."), bad=[])
            continue
        if _output_is_right(bench, sample, trial) and _true_is_finite(bench, reference, sample, trial):
            bench.see(
                "finite",
                sample,
                str(sample.dtype).removeprefix("torch."),
                bad=[_nonfinite(sample, trial, i) for i in bad],
            )


def _bounded(g: torch.Tensor) -> torch.Tensor:
    return g / g.abs().max().clamp(min=1) if g.numel() else g


def _scaled(sample: Sample, factor: float) -> Sample:
    words = "zeros" if factor == 0 else "as given" if factor == 1 else f"inputs times {factor:g}"
    return sample.with_tensors(
        words,
        [
            t * factor if n and (factor <= 1 or not in_unit_interval(t)) else t
            for t, n in zip(sample.tensors, sample.needs, strict=True)
        ],
    )


def _nonfinite(sample: Sample, trial: Trial, i: int) -> dict[str, Any]:
    grad = trial.grads[i]
    assert grad is not None
    place = int((~torch.isfinite(grad)).reshape(-1).nonzero()[0])
    return {
        "name": sample.names[i],
        "value": str(grad.reshape(-1)[place].item()),
        "input": str(sample.tensors[i].reshape(-1)[place].item()),
        "count": int((~torch.isfinite(grad)).sum()),
        "of": grad.numel(),
    }


def _output_is_right(bench: Bench, sample: Sample, trial: Trial) -> bool:
    """Whether the forward still says what it says in float64; beyond, its gradient is not to blame."""
    if bench.dtype != torch.float64 or sample.dtype == torch.float64:
        return True
    twin = bench.run(sample.to(torch.float64), backward=False)
    return twin.ok and all(_near(a, b, sample.dtype) for a, b in zip(trial.attached, twin.attached, strict=False))


def _true_is_finite(bench: Bench, reference: Reference, sample: Sample, trial: Trial) -> bool:
    """Finite by autograd in the same precision; where that is not known, by the subject itself in float64."""
    found = reference.gradient(sample, trial)
    if found is not None:
        largest = 0.1 * torch.finfo(sample.dtype).max
        return all(g is None or bool((torch.isfinite(g) & (g.abs() < largest)).all()) for g in found)
    if sample.dtype == torch.float64 or bench.dtype != torch.float64:
        # no twin: only a plain nan at ordinary numbers counts
        return sample.name != "zeros" and any(bool(g.isnan().any()) for g in trial.grads if g is not None)
    twin = bench.run(sample.to(torch.float64), cotangents=lambda o: [c.double() for c in trial.cotangents])
    largest = 0.1 * torch.finfo(sample.dtype).max
    return twin.ok and all(g is None or bool((torch.isfinite(g) & (g.abs() < largest)).all()) for g in twin.grads)


def given_precision(bench: Bench) -> None:
    """The gradient in the precision it was given beside the one in float64."""
    if bench.dtype != torch.float64 or bench.given.dtype == torch.float64:
        return
    _beside_double(bench, bench.given, "given precision", None)


def low_precision(bench: Bench, reference: Reference) -> None:
    """In bfloat16 and float16 no worse than some times what plain autograd loses there."""
    if bench.dtype != torch.float64:
        return
    if any(t.is_complex() for t in bench.given.tensors):
        return
    whole = bench.full if bench.full.size <= _WHOLE else bench.given  # sums over many elements are what goes wrong
    for dtype in (torch.bfloat16, torch.float16):
        low = whole.to(dtype)
        _beside_double(bench, low, "low precision", reference)


def _beside_double(bench: Bench, sample: Sample, law: str, reference: Reference | None) -> None:
    """With incoming gradients of either sign, and with positive ones, whose sums are large."""
    for signs in ("of either sign", "all positive"):
        trial = bench.run(
            sample,
            cotangents=lambda o, s=signs: _signed(bench.cotangents(o), s),  # type: ignore[misc]
        )
        condition = str(sample.dtype).removeprefix("torch.")
        if trial.forward_failed or not trial.finite:
            return
        if not trial.ok:
            bench.see(law, sample, condition, failure=trial.failure)
            return
        comparisons = _lost(bench, sample, trial, law, reference)
        if comparisons is not None:
            bench.see(law, sample, condition, comparisons=comparisons, incoming=signs)


def _signed(cotangents: list[torch.Tensor], signs: str) -> list[torch.Tensor]:
    return [c.abs() + 0.5 if signs == "all positive" and not c.is_complex() else c for c in cotangents]


def _lost(bench: Bench, sample: Sample, trial: Trial, law: str, reference: Reference | None) -> list[Comparison] | None:
    """The gradients beside those in float64, with what the precision, and plain autograd in it, may lose."""
    twin = bench.run(sample.to(torch.float64), cotangents=lambda o: [c.to(_wide(c.dtype)) for c in trial.cotangents])
    if not twin.ok or twin.tracked != trial.tracked:
        return None
    if any(not _near(a, b, sample.dtype) for a, b in zip(trial.attached, twin.attached, strict=True)):
        return None  # a branch or a rounding was taken differently
    plain = reference.gradient(sample, trial) if reference is not None else None
    if reference is not None and (plain is None or reference.kind == "declared"):
        return None
    epsilon = torch.finfo(sample.dtype).eps
    comparisons: list[Comparison] = []
    for i in sample.needed:
        exact = twin.grads[i]
        if exact is None or not torch.isfinite(exact).all():
            continue
        scale = float(exact.abs().max()) if exact.numel() else 0.0
        allowed = 8 * epsilon * scale
        usual = plain[i] if plain is not None else None
        if usual is not None and exact.numel():
            allowed += 8 * float((usual.to(exact.dtype) - exact).abs().max())
        elif law == "given precision":
            allowed = 4096 * epsilon * scale
        comparisons.append(compare(sample.names[i], trial.grads[i], exact, tolerance=allowed, relative=0.0))
    return comparisons


def _wide(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype.is_complex else torch.float64


def _near(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> bool:
    if a.numel() == 0:
        return True
    epsilon = torch.finfo(dtype).eps
    difference = float((a.detach().to(b.dtype) - b.detach()).abs().max())
    return difference <= 256 * epsilon * max(float(b.detach().abs().max()), 1e-3)


def autocast(bench: Bench) -> None:
    """Forward under autocast, backward outside, as training in mixed precision does."""
    single = bench.given.to(torch.float32)
    plain = bench.run(single)
    if not plain.ok or not plain.finite:
        return
    dtype = torch.bfloat16

    def mixed() -> Any:
        return torch.autocast("cpu", dtype=dtype)

    trial = bench.run(single, around=mixed)
    if not trial.ok:
        bench.see("transform", single, transform="autocast", failure=trial.failure)
        return
    if trial.tracked != plain.tracked:
        return
    if any(not _near(a, b, dtype) for a, b in zip(trial.attached, plain.attached, strict=True)):
        return
    comparisons = []
    expected = bench.run(single, cotangents=lambda o: [c.to(x.dtype) for c, x in zip(trial.cotangents, o, strict=True)])
    if not expected.ok:
        return
    for i in single.needed:
        exact = expected.grads[i]
        scale = float(exact.abs().max()) if exact is not None and exact.numel() else 0.0
        comparisons.append(
            compare(single.names[i], trial.grads[i], exact, tolerance=64 * torch.finfo(dtype).eps * scale, relative=0.0)
        )
    bench.see("transform", single, transform="autocast", comparisons=comparisons)


def declared(bench: Bench, reference: Reference) -> None:
    """Whether the function whose derivative is meant can be called at all."""
    trial = bench.run(bench.given, function=reference.function, backward=False, needs=[False] * len(bench.given.needs))
    if trial.failure is not None or not trial.outputs:
        failure = trial.failure or {"type": "TypeError", "text": "it returns no tensor"}
        bench.see("declared gradient", bench.given, failure=failure)
        return
    own = bench.run(bench.given, backward=False)
    if own.ok:
        places = own.tracked if len(trial.outputs) == len(own.outputs) else range(len(trial.outputs))
        meant = [list(trial.outputs[p].shape) for p in places]
        given = [list(o.shape) for o in own.attached]
        if meant[: len(given)] != given:
            text = f"it returns the shapes {meant}, and the subject {given}"
            bench.see("declared gradient", bench.given, failure={"type": "TypeError", "text": text})


def reference_forward(bench: Bench, function: Callable[..., Any]) -> None:
    """The outputs beside those of a reference the author gave."""
    call = fitted(function, bench.subject.parameter_names)
    if bench.subject.parameters:
        inner = call
        call = lambda parameters, *args, **kwargs: inner(*args, **kwargs)  # noqa: E731
    for sample in dict.fromkeys([bench.sample, bench.given]):
        got, expected = bench.run(sample, backward=False), bench.run(sample, backward=False, function=call)
        if not expected.ok:
            bench.see("reference forward", sample, failure=expected.failure)
            return
        if not got.ok:
            return
        relative = bench.loose if sample is bench.sample else 1e-4
        bench.see(
            "reference forward",
            sample,
            str(sample.dtype).removeprefix("torch."),
            comparisons=[
                compare(n, a, b, relative=relative)
                for n, a, b in zip(got.names, got.outputs, expected.outputs, strict=False)
            ],
            count=[len(got.outputs), len(expected.outputs)],
        )
