"""What is returned for which input, when only some inputs need a gradient or only some outputs are used."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import torch
from torch.autograd import Function

from gradsmith.check._bench import Bench, Trial
from gradsmith.check._compare import compare
from gradsmith.check._nodes import custom_nodes, is_ours, reachable
from gradsmith.check._sample import Sample
from gradsmith.declare._private import function_class_of

__all__ = ["captured", "raw_returns", "same_tensor_twice", "subsets", "unused_outputs"]


def functions_in(bench: Bench) -> list[type[Function]]:
    """The Function classes that take part, gradsmith's own left out."""
    trial = bench.run(backward=False)
    classes = [function_class_of(n) for n in custom_nodes(trial.outputs) if not is_ours(n)]
    found = [c for c in dict.fromkeys(classes) if isinstance(c, type)]
    if bench.subject.function is not None and bench.subject.function not in found:
        found.append(bench.subject.function)
    return found


@contextmanager
def _recorded(function: type[Function], calls: list[tuple[str, tuple[Any, ...], Any]]) -> Iterator[None]:
    """Write down what forward and backward of a class are given and return."""
    own = {name: function.__dict__.get(name) for name in ("forward", "backward")}

    def watch(name: str) -> None:
        original = getattr(function, name)

        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            returned = original(*args, **kwargs)
            calls.append((name, args, returned))
            return returned

        setattr(function, name, staticmethod(call))

    try:
        for name in own:
            watch(name)
        yield
    finally:
        for name, value in own.items():
            if value is None:
                delattr(function, name)
            else:
                setattr(function, name, value)


def raw_returns(bench: Bench) -> None:
    """What backward returns, before the engine sums and casts it: None, shape, dtype, device."""
    for sample in [bench.sample] if bench.given.dtype == bench.sample.dtype else [bench.sample, bench.given]:
        for function in functions_in(bench):
            _raw_returns(bench, sample, function)


def _raw_returns(bench: Bench, sample: Sample, function: type[Function]) -> None:
    calls: list[tuple[str, tuple[Any, ...], Any]] = []
    with _recorded(function, calls):
        trial = bench.run(sample)
    if not trial.ok:
        return
    forwards = [args for name, args, _ in calls if name == "forward"]
    backwards = [(args, returned) for name, args, returned in calls if name == "backward"]
    if len(forwards) != 1 or len(backwards) != 1:
        return
    with_context = function.setup_context is Function.setup_context
    inputs = forwards[0][1:] if with_context else forwards[0]
    floats = [g for g in inputs if isinstance(g, torch.Tensor) and g.is_floating_point()]
    if sample is not bench.given and any(g.dtype != sample.dtype for g in floats):
        return  # what is captured keeps its own precision
    returned = backwards[0][1]
    returned = returned if isinstance(returned, (tuple, list)) else (returned,)
    names = bench.subject.parameter_names if function is bench.subject.function else []
    names = names or _parameters(function, with_context)
    rows = []
    for i, (given, grad) in enumerate(zip(inputs, returned, strict=False)):
        if not isinstance(given, torch.Tensor):
            continue
        rows.append(
            {
                "name": names[i] if i < len(names) else f"input {i}",
                "needs": bool(given.requires_grad),
                "input": _meta(given),
                "returned": _meta(grad) if isinstance(grad, torch.Tensor) else None,
            }
        )
    bench.see(
        "returned",
        sample,
        str(sample.dtype).removeprefix("torch."),
        name=function.__name__,
        rows=rows,
        count=[len(inputs), len(returned)],
    )


def _parameters(function: type[Function], with_context: bool) -> list[str]:
    try:
        return list(inspect.signature(function.forward).parameters)[1 if with_context else 0 :]
    except (TypeError, ValueError):
        return []


def _meta(tensor: torch.Tensor) -> dict[str, Any]:
    return {
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": tensor.device.type,
    }


def subsets(bench: Bench) -> None:
    """Each input's gradient is the same whichever others need one."""
    sample = bench.sample
    needed = sample.needed
    if len(needed) < 2:
        return
    full = bench.run()
    if not full.ok:
        return
    choices: list[tuple[int, ...]] = [(i,) for i in needed]
    if len(needed) == 3:
        choices += list(combinations(needed, 2))
    elif len(needed) > 3:
        choices += [tuple(j for j in needed if j != i) for i in needed]
    for chosen in choices[:16]:
        trial = bench.run(needs=[i in chosen for i in range(len(sample.tensors))])
        words = "only " + " and ".join(sample.names[i] for i in chosen) + " require" + ("s" if len(chosen) == 1 else "")
        condition = words + " grad"
        if not trial.ok:
            bench.see("subset", condition=condition, failure=trial.failure)
            continue
        if trial.tracked != full.tracked:
            if set(trial.tracked) < set(full.tracked) and all(full.grads[i] is not None for i in chosen):
                lost = [full.names[k] for k in full.tracked if k not in trial.tracked]
                if not trial.tracked:
                    bench.see("subset", condition=condition, lost=lost, comparisons=[])
            continue
        bench.see(
            "subset",
            condition=condition,
            comparisons=[compare(sample.names[i], trial.grads[i], full.grads[i], relative=bench.tight) for i in chosen],
        )


def unused_outputs(bench: Bench) -> None:
    """An output nobody uses is as good as one whose incoming gradient is zero."""
    trial = bench.run(backward=False)
    count = len(trial.tracked)
    if count < 2:
        return
    for k in range(count):
        condition = f"only {trial.names[trial.tracked[k]]} is used"
        alone = bench.run(use=[k])

        def others_zero(outputs: list[torch.Tensor], k: int = k) -> list[torch.Tensor]:
            return [g if j == k else torch.zeros_like(g) for j, g in enumerate(bench.cotangents(outputs))]

        zeros = bench.run(cotangents=others_zero)
        if not alone.ok:
            bench.see("unused output", condition=condition, failure=alone.failure)
        elif zeros.ok:
            bench.see(
                "unused output",
                condition=condition,
                comparisons=[
                    compare(bench.sample.names[i], alone.grads[i], zeros.grads[i], relative=bench.tight)
                    for i in bench.sample.needed
                ],
            )


def same_tensor_twice(bench: Bench) -> None:
    """A tensor passed in two places gets the sum of both gradients."""
    sample = bench.sample
    needed = sample.needed
    for i, j in list(combinations(needed, 2))[:6]:
        x, y = sample.tensors[i], sample.tensors[j]
        if x.shape != y.shape or x.dtype != y.dtype:
            continue
        values = list(sample.tensors)
        values[j] = x
        apart = bench.run(sample.with_tensors(sample.name, values))
        if not apart.ok or not apart.finite:
            continue
        leaves = [t.clone().requires_grad_(n) if n else t.clone() for t, n in zip(values, sample.needs, strict=True)]
        leaves[j] = leaves[i]
        together = bench.run(leaves=leaves)
        condition = f"{sample.names[i]} and {sample.names[j]} are one tensor"
        if together.forward_failed:
            continue
        if not together.ok:
            bench.see("same tensor twice", condition=condition, failure=together.failure)
            continue
        expected = _sum(apart, i, j)
        bench.see(
            "same tensor twice",
            condition=condition,
            comparisons=[compare(sample.names[i], together.grads[i], expected, relative=bench.tight)],
        )


def _sum(trial: Trial, i: int, j: int) -> torch.Tensor | None:
    a, b = trial.grads[i], trial.grads[j]
    if a is None or b is None:
        return b if a is None else a
    return a + b


def captured(bench: Bench) -> None:
    """Tensors and modules a forward reaches without being given them, or inside what it is given, get no gradient."""
    names: list[dict[str, str]] = []
    for function in functions_in(bench):
        if bench.subject.kind == "custom_op":
            continue
        try:
            found = inspect.getclosurevars(inspect.unwrap(function.forward))
        except (TypeError, ValueError):
            continue
        for kind, scope in (("closure", found.nonlocals), ("global", found.globals)):
            for name, value in scope.items():
                # (what a global dict or list holds may be what the calls before put there)
                if not (kind == "global" and isinstance(value, (dict, list, set))) and _wants_gradient(value):
                    names.append({"name": name, "kind": kind, "type": type(value).__name__})
    if bench.subject.kind == "Function":
        args, _ = bench.given.arguments(bench.given.tensors)
        parameters = bench.subject.parameter_names
        for place, value in enumerate(args):
            if not isinstance(value, torch.Tensor) and _wants_gradient(value):
                name = parameters[place] if place < len(parameters) else f"input {place}"
                names.append({"name": name, "kind": "argument", "type": type(value).__name__})
    reached = [n for n in names if not _gets_gradient(bench, n)]
    bench.see("captured", names=reached)


def _wants_gradient(value: Any) -> bool:
    if isinstance(value, torch.nn.Module):
        return any(p.requires_grad for p in value.parameters())
    if isinstance(value, type) or inspect.ismodule(value) or inspect.isfunction(value):
        return False
    owner = getattr(value, "__self__", None)  # a bound method of a module
    if isinstance(owner, torch.nn.Module):
        return _wants_gradient(owner)
    return any(t.requires_grad for t in reachable(value))


def _gets_gradient(bench: Bench, name: dict[str, str]) -> bool:
    """Whether the backward fills `.grad` of what it reached, as checkpointing does."""
    value = _value_of(bench, name)
    tensors = [
        p for p in (value.parameters() if isinstance(value, torch.nn.Module) else reachable(value)) if p.requires_grad
    ]
    before = [p.grad for p in tensors]
    try:
        for p in tensors:
            p.grad = None
        bench.run()
        return bool(tensors) and all(p.grad is not None for p in tensors)
    finally:
        for p, grad in zip(tensors, before, strict=True):
            p.grad = grad


def _value_of(bench: Bench, name: dict[str, str]) -> Any:
    if name["kind"] == "argument":
        args, _ = bench.given.arguments(bench.given.tensors)
        parameters = bench.subject.parameter_names
        place = parameters.index(name["name"]) if name["name"] in parameters else int(name["name"].split()[-1])
        return args[place]
    for function in functions_in(bench):
        try:
            found = inspect.getclosurevars(inspect.unwrap(function.forward))
        except (TypeError, ValueError):
            continue
        scope = found.nonlocals if name["kind"] == "closure" else found.globals
        if name["name"] in scope:
            value = scope[name["name"]]
            return getattr(value, "__self__", value)
    return None
