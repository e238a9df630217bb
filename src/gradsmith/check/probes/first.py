"""The first calls: does it run, is a gradient attached, in which precision can it be judged, does it repeat itself."""

from __future__ import annotations

from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import compare
from gradsmith.check._neighbours import shrunk
from gradsmith.check._sample import Sample, is_float, unusable
from gradsmith.check._slope import slope
from gradsmith.errors import UsageError

__all__ = ["LARGE", "first_call", "repeats"]

LARGE = 8192  # elements; beyond, the laws are tried on a part

_ANNOUNCED_WRITE = "leaf Variable that requires grad"


def first_call(bench: Bench) -> bool:
    """Whether there is a gradient to judge; sets the precision the laws are tried in."""
    trial = bench.run(bench.given, backward=False)
    if not trial.ok and _ANNOUNCED_WRITE in trial.failure["text"]:  # type: ignore[index]
        bench.through_clones = True
        trial = bench.run(bench.given, backward=False)
    if not trial.ok:
        if trial.failure is not None and trial.failure["type"] == "TypeError":
            if why := bench.subject.misfit(*bench.given.arguments(bench.given.tensors)):
                raise UsageError(f"inputs: {why}")
        bench.see("call", bench.given, failure=trial.failure)
        return False
    for output in trial.outputs:
        if why := unusable(output):
            raise UsageError(f"subject: what {bench.subject.name} returns {why}")
    if not trial.tracked:
        bench.see("unattached", bench.given, **_unattached(bench, trial))
        return False
    if not bench.backward(trial):
        bench.see("call", bench.given, failure=trial.failure)
        _set_precision(bench, trial)
        return False
    bench.see("call", bench.given, outputs=_described(trial), random=False)
    if bench.given.size > LARGE:
        del trial
        _shrink(bench)
        trial = bench.run(bench.given)
    _unreached_outputs(bench, trial)
    _set_precision(bench, trial)
    return True


def _shrink(bench: Bench) -> None:
    """Try the laws on a part of large inputs; the gradient itself is judged at full size too."""
    small = shrunk(bench, bench.given, LARGE)
    if small is None:
        bench.skip("a smaller sample", "the forward does not take one; every law was tried at full size")
    else:
        bench.given = small


def _described(trial: Trial) -> list[dict[str, object]]:
    return [
        {
            "name": n,
            "shape": list(o.shape),
            "dtype": str(o.dtype).removeprefix("torch."),
            "has_gradient": o.requires_grad,
        }
        for n, o in zip(trial.names, trial.outputs, strict=True)
    ]


def _unattached(bench: Bench, trial: Trial) -> dict[str, Any]:
    """Whether the outputs, which have no gradient, do depend on the inputs."""
    floats = [i for i, o in enumerate(trial.outputs) if is_float(o) and o.numel()]
    return {
        "outputs": _described(trial),
        "returned": "nothing" if not trial.outputs else "tensors",
        "depends": bool(floats) and any(_moves(bench, trial, k) for k in floats),
    }


def _moves(bench: Bench, trial: Trial, place: int) -> bool:
    """Whether an output changes smoothly with the inputs that require grad."""
    for sample in (bench.given.to(torch.float64), bench.given):
        outputs = bench.evaluate(sample)
        if outputs is None or len(outputs) <= place or outputs[place].dtype not in (sample.dtype, torch.complex128):
            continue
        directions = {i: bench.random_like(sample.tensors[i], f"move{i}") for i in sample.needed}
        measured = slope(bench, sample, directions, bench.cotangents([outputs[place]], "move"), [place])
        if measured is not None:
            return abs(measured.value) > 10 * measured.error + 1e-7
    return False


def _unreached_outputs(bench: Bench, trial: Trial) -> None:
    """Float outputs in a container are outputs without a gradient; those marked so are meant."""
    structure = trial.structure
    if bench.subject.kind != "Function" or isinstance(structure, str):
        return
    nested = structure[0] not in ("tuple", "list", "=") or any(
        not isinstance(child, str) and child[0] != "=" for child in structure[3]
    )
    for i, output in enumerate(trial.outputs):
        if nested and not output.requires_grad and is_float(output) and _moves(bench, trial, i):
            bench.see("untracked output", bench.given, name=trial.names[i], structure=structure[0])


def _set_precision(bench: Bench, trial: Trial) -> None:
    """float64 where the subject can do it; else the precision it was given."""
    precise = bench.given.to(torch.float64)
    bench.sample = bench.given
    found = bench.run(precise, backward=trial.ok)
    kinds = (torch.float64, torch.complex128)
    if found.ok and found.tracked == trial.tracked and all(o.dtype in kinds for o in found.attached):
        if not trial.ok or all(
            g is None or torch.isfinite(g).all() or not torch.isfinite(t).all()
            for g, t in zip(found.grads, trial.grads, strict=True)
            if t is not None
        ):
            bench.sample = precise
            return
    if bench.given.dtype in (torch.float16, torch.bfloat16):
        single = bench.given.to(torch.float32)
        if bench.run(single, backward=trial.ok).ok:
            bench.sample = single
    if trial.ok and found.failure is not None and found.failure["stage"] == "backward":
        bench.see("precision", "in float64", failure=found.failure)
        return
    why = found.failure["text"] if found.failure else "its output is not float64 for a float64 input"
    bench.see("precision", bench.given, dtype=str(bench.sample.dtype).removeprefix("torch."), why=why)


def repeats(bench: Bench) -> None:
    """The same call three times with the same random numbers, and once with others."""
    trials = [bench.run() for _ in range(3)]
    if not all(t.ok for t in trials):
        return
    first = trials[0]
    outputs = [
        compare(n, b, a, relative=0.0)
        for t in trials[1:]
        for n, a, b in zip(first.names, first.outputs, t.outputs, strict=False)
        if a.shape == b.shape
    ]
    grads = [
        compare(n, b, a, relative=0.0)
        for t in trials[1:]
        for n, a, b in zip(bench.sample.names, first.grads, t.grads, strict=True)
    ]
    other = bench.run(seed=bench.seed + 1)
    random = other.ok and not all(torch.equal(a, b) for a, b in zip(first.outputs, other.outputs, strict=False))
    bench.random = random
    bench.see("repeat", bench.sample, outputs=outputs, grads=grads, random=random, epsilon=_epsilon(bench.sample))
    relative = max((c["error"] / max(c["scale"], 1e-30) for c in grads), default=0.0)
    bench.noise = relative if relative < 1e-3 else 0.0


def _epsilon(sample: Sample) -> float:
    return torch.finfo(sample.dtype).eps
