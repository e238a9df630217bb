"""What is tried, in which order: cheap and telling first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradsmith.check._bench import Bench
from gradsmith.check._neighbours import neighbours
from gradsmith.check._reference import Reference
from gradsmith.check.probes import (
    higher,
    incoming,
    lifetime,
    numerics,
    pictures,
    registered,
    state,
    structure,
    transforms,
)
from gradsmith.check.probes.compiled import compiled
from gradsmith.check.probes.first import LARGE, repeats
from gradsmith.check.probes.value import Judge

__all__ = ["Step", "steps"]

Step = tuple[str, Callable[[], Any]]


def steps(bench: Bench, reference_function: Callable[..., Any] | None) -> list[Step]:
    """What is tried, in order: cheap and telling first."""
    reference = Reference(bench)
    judge = Judge(bench, reference)
    found: list[Step] = [
        ("the same call again", lambda: repeats(bench)),
        ("random numbers", lambda: state.random_numbers(bench)),
    ]
    if bench.full.size > LARGE:
        found.append(("the gradient at full size", lambda: judge(bench.full)))
    found += [
        ("the gradient as given", lambda: judge(bench.sample)),
        ("values, sizes, dimensions and options nearby", lambda: _nearby(bench, judge)),
        ("linearity in the incoming gradient", lambda: incoming.linearity(bench)),
        ("layout of the incoming gradient", lambda: incoming.layout(bench)),
        ("layout of the inputs", lambda: incoming.input_layout(bench)),
        ("nothing is written to", lambda: incoming.mutation(bench)),
        ("what backward returns", lambda: structure.raw_returns(bench)),
        ("which inputs need a gradient", lambda: structure.subsets(bench)),
        ("which outputs are used", lambda: structure.unused_outputs(bench)),
        ("one tensor in two places", lambda: structure.same_tensor_twice(bench)),
        ("captured tensors", lambda: structure.captured(bench)),
        ("tensors kept on ctx", lambda: lifetime.context(bench)),
        ("memory after a call", lambda: lifetime.leak(bench)),
        ("saved tensors and hooks", lambda: lifetime.saved(bench)),
        ("checkpoint", lambda: lifetime.checkpointing(bench)),
        ("calls that overlap", lambda: state.interleaved(bench)),
        ("the backward again", lambda: state.twice(bench)),
        ("another thread", lambda: state.other_thread(bench)),
        ("double backward", lambda: higher.double_backward(bench, reference)),
        ("forward mode", lambda: higher.forward_mode(bench)),
        ("the given precision", lambda: numerics.given_precision(bench)),
        ("large and tiny numbers", lambda: numerics.finite(bench, reference)),
        ("low precision", lambda: numerics.low_precision(bench, reference)),
        ("autocast", lambda: numerics.autocast(bench)),
        ("torch.func and torch.compile", lambda: _transforms(bench)),
        ("torch.library", lambda: registered.registration(bench)),
        ("pictures", lambda: pictures.draw(bench, reference)),
    ]
    if reference.kind == "declared":
        found.insert(2, ("the declared function", lambda: numerics.declared(bench, reference)))
    if reference_function is not None:
        found.insert(2, ("the reference forward", lambda: numerics.reference_forward(bench, reference_function)))
    return found


_FAST = {"values": 5, "size": 5, "unequal sizes": 4}  # of each kind, where it must be fast; of others 2


def _nearby(bench: Bench, judge: Judge) -> None:
    """Judge the neighbours the forward accepts."""
    most = 200 if bench.thorough else 24 if bench.fast else 60
    used: dict[str, int] = {}
    tried = 0
    base = judge.largest
    for neighbour in neighbours(bench):
        if bench.fast and used.get(neighbour.kind, 0) >= _FAST.get(neighbour.kind, 2):
            continue
        if tried >= most * 3 or sum(used.values()) >= most:
            break
        tried += 1
        law = "neighbour"
        verdict = judge(neighbour.sample, law=law, floor=neighbour.floor * 1e-7 * base, kind=neighbour.kind)
        if verdict is not None:
            used[neighbour.kind] = used.get(neighbour.kind, 0) + 1
        bench.see(
            "sample",
            neighbour.sample,
            name=neighbour.sample.name,
            inputs=neighbour.sample.described(),
            used=verdict is not None,
            why="" if verdict is not None else "the forward does not take it",
        )


def _transforms(bench: Bench) -> None:
    right = transforms.functional(bench)
    if right:
        transforms.second_functional(bench)
    transforms.batched(bench)
    transforms.grads_batched(bench)
    if bench.fast:
        bench.skip("torch.compile", "left out by fast")
    elif bench.random:
        bench.skip("torch.compile", "compiled code draws other random numbers than eager code")
    else:
        compiled(bench, right)
