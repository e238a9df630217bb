"""torch.compile of the call, and of its torch.func gradient, beside eager mode."""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

import torch

from gradsmith.check._bench import Bench
from gradsmith.check.probes._pure import Pure, attempt, pure_of

__all__ = ["compiled"]


def compiled(bench: Bench, functional_is_right: bool) -> None:
    """torch.compile of the call, and of its torch.func gradient."""
    pure = pure_of(bench)
    if pure is None:
        return
    cotangents = pure.base.cotangents
    for full in (True, False):
        leaves = [x.clone().requires_grad_() for x in pure.inputs]

        def pull(full: bool = full, leaves: list[torch.Tensor] = leaves) -> Sequence[Any]:
            call = torch.compile(
                _fresh(lambda *inputs: pure(*inputs)), backend="aot_eager", fullgraph=full, dynamic=bench.thorough
            )
            outputs = call(*leaves)  # type: ignore[no-untyped-call]
            pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o.requires_grad]
            grads = (
                torch.autograd.grad([o for o, _ in pairs], leaves, [c for _, c in pairs], allow_unused=True)
                if pairs
                else [None] * len(leaves)
            )
            return [*outputs, *grads]

        names = [*[pure.base.names[p] for p in pure.base.tracked], *pure.names]
        expected = [*[o.detach() for o in pure.base.attached], *pure.gradients()]
        attempt(bench, "compile", pull, expected, names, fullgraph=full)
        if bench.seen[-1].law == "skipped":
            return  # it took too long
        if bench.seen[-1].failure is None:
            break
        if full:
            bench.seen.pop()  # a graph break is no fault
    if bench.seen[-1].failure is not None:
        return
    _compiled_functional(bench, pure, functional_is_right)


def _compiled_functional(bench: Bench, pure: Pure, functional_is_right: bool) -> None:
    cotangents = tuple(pure.base.cotangents)

    def pull() -> Sequence[Any]:
        def gradient(*inputs: torch.Tensor) -> Any:
            return torch.func.vjp(lambda *x: pure(*x), *inputs)[1](cotangents)

        call = torch.compile(_fresh(gradient), backend="aot_eager", dynamic=False)
        found: Sequence[Any] = call(*pure.inputs)  # type: ignore[no-untyped-call]
        return found

    attempt(bench, "compile(func.grad)", pull, pure.gradients(), pure.names, functional=functional_is_right)


def _fresh(function: Any) -> Any:
    """The function with a code object of its own: torch.compile counts its recompilations by that."""
    made = types.FunctionType(
        function.__code__.replace(),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    return made
