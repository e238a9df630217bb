"""What stays alive, where it is kept, and whether those who look after saved tensors see it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from gradsmith.check._bench import Bench
from gradsmith.check._compare import compare
from gradsmith.check._nodes import custom_nodes, is_ours, saved_tensors, stashed

__all__ = ["checkpointing", "context", "leak", "saved"]


def context(bench: Bench) -> None:
    """Tensors that hang on ctx instead of being saved."""
    trial = bench.run(backward=False)
    if not trial.ok:
        return
    attributes: list[dict[str, Any]] = []
    for node in custom_nodes(trial.outputs):
        if is_ours(node) or bench.subject.kind == "custom_op":
            continue
        for name, tensors in stashed(node).items():
            kinds = {_kind(t, trial.leaves, trial.outputs) for t in tensors if not _is_random_state(t)}
            if kinds:
                kind = next(k for k in ("output", "input", "intermediate") if k in kinds)
                attributes.append({"name": name, "kind": kind, "node": type(node).__name__.removesuffix("Backward")})
    bench.see("ctx", attributes=attributes)


def _kind(tensor: torch.Tensor, leaves: list[torch.Tensor], outputs: list[torch.Tensor]) -> str:
    def among(others: list[torch.Tensor]) -> bool:
        return any(t is tensor or (_memory(t) == _memory(tensor) and tensor.numel() > 0) for t in others)

    return "input" if among(leaves) else "output" if among(outputs) else "intermediate"


def _memory(tensor: torch.Tensor) -> Any:
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):
        return id(tensor)


def _is_random_state(tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.uint8 and tensor.dim() == 1 and tensor.numel() in (16, torch.get_rng_state().numel())


def leak(bench: Bench) -> None:
    """Nothing of a call outlives it: with the garbage collector off, and then with it."""
    alive: dict[str, str] = {}
    for backward in (True, False):
        enabled = gc.isenabled()
        gc.collect()
        gc.disable()
        try:
            watched = _one_call(bench, backward)
            left = [name for name, ref in watched if ref() is not None]
            if left:
                gc.collect()
                for name in left:
                    forever = any(n == name and ref() is not None for n, ref in watched)
                    alive.setdefault(name, "for ever" if forever else "until the garbage collector runs")
        finally:
            if enabled:
                gc.enable()
    bench.see("leak", alive=alive)


def _one_call(bench: Bench, backward: bool) -> list[tuple[str, Any]]:
    trial = bench.run(backward=backward)
    watched: list[tuple[str, Any]] = [(n, weakref.ref(t)) for n, t in zip(trial.names, trial.outputs, strict=True)]
    watched += [(n, weakref.ref(t)) for n, t in zip(bench.sample.names, trial.leaves, strict=True)]
    # The memory too: a detached alias that is kept holds all of it.
    for name, output in zip(trial.names, trial.outputs, strict=True):
        memory: Any = output.untyped_storage()
        watched.append((name, weakref.ref(memory)))
    for node in custom_nodes(trial.outputs):
        watched.append((f"the graph node {type(node).__name__}", weakref.ref(node)))
    return watched


def saved(bench: Bench) -> None:
    """Which saved tensors the gradient depends on, how often they are read, and that a copy serves as well."""
    base = bench.run()
    if not base.ok:
        return
    packed: list[torch.Tensor] = []
    reads: dict[int, int] = {}

    @contextmanager
    def copies() -> Iterator[None]:
        def pack(tensor: torch.Tensor) -> int:
            packed.append(tensor.detach().clone())
            return len(packed) - 1

        def unpack(place: int) -> torch.Tensor:
            reads[place] = reads.get(place, 0) + 1
            return packed[place].clone()

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield

    trial = bench.run(around=copies)
    if trial.failure:
        bench.see("saved by hooks", failure=trial.failure)
        return
    bench.see(
        "saved by hooks",
        comparisons=[
            compare(bench.sample.names[i], trial.grads[i], base.grads[i], relative=bench.tight)
            for i in bench.sample.needed
        ],
        reads=max(reads.values(), default=0),
    )
    if bench.subject.kind not in ("Function",):
        return
    node = next(iter(custom_nodes(bench.run(backward=False).outputs)), None)
    kept = saved_tensors(node) if node is not None else []
    rows = []
    for place, tensor in enumerate(kept):
        if isinstance(tensor, torch.Tensor):
            rows.append(
                {
                    "place": place,
                    "shape": list(tensor.shape),
                    "read": _matters(bench, base.grads, place, tensor, len(packed)),
                }
            )
    bench.see("saved", rows=rows)


def _matters(bench: Bench, grads: list[torch.Tensor | None], place: int, tensor: torch.Tensor, total: int) -> bool:
    """Whether the gradient changes when one saved tensor is replaced by nonsense."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.numel() == 0:
        return True  # an index cannot be replaced safely
    count = -1

    @contextmanager
    def poisoned() -> Iterator[None]:
        def pack(t: torch.Tensor) -> tuple[int, torch.Tensor]:
            nonlocal count
            count += 1
            return count, t.detach()

        def unpack(box: tuple[int, torch.Tensor]) -> torch.Tensor:
            return torch.full_like(box[1], float("nan")) if box[0] == wanted else box[1]

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            yield

    # hooks see the tensors that are not None, in order
    wanted = place
    trial = bench.run(around=poisoned)
    if not trial.ok:
        return True
    return not all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(grads, trial.grads, strict=True)
    )


def checkpointing(bench: Bench) -> None:
    """The same gradient when the forward is run again in the backward."""
    base = bench.run()
    if not base.ok:
        return

    def call(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(bench.subject.call, *args, use_reentrant=False, **kwargs)

    trial = bench.run(function=call)
    if not trial.ok:
        bench.see("transform", transform="checkpoint", failure=trial.failure)
        return
    bench.see(
        "transform",
        transform="checkpoint",
        comparisons=[
            compare(bench.sample.names[i], trial.grads[i], base.grads[i], relative=bench.tight)
            for i in bench.sample.needed
        ],
    )
