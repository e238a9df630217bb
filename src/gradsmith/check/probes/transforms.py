"""torch.func gives what eager autograd gives, or refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial
from gradsmith.check.probes._pure import Pure, Tensors, attempt, pure_of
from gradsmith.check.source._source import source_text
from gradsmith.declare._private import vmap_fallback_unmentioned

__all__ = ["batched", "functional", "grads_batched", "second_functional"]


def functional(bench: Bench) -> bool:
    """torch.func.vjp beside autograd; whether torch.func can differentiate the subject."""
    pure = pure_of(bench)
    if pure is None:
        return False
    cotangents = tuple(pure.base.cotangents)

    def pull() -> Sequence[Any]:
        found: Sequence[Any] = torch.func.vjp(pure, *pure.inputs)[1](cotangents)
        return found

    return attempt(bench, "func.grad", pull, pure.gradients(), pure.names)


@vmap_fallback_unmentioned()
def batched(bench: Bench) -> None:
    """vmap over the first and over the last dimension, alone and around the gradient, beside a loop."""
    pure = pure_of(bench)
    if pure is None:
        return
    size = 3
    stacks = [
        torch.stack([x, *[_near(bench, x, f"{k}.{n}") for n in range(1, size)]]) for k, x in enumerate(pure.inputs)
    ]
    parts = [[s[n] for s in stacks] for n in range(size)]
    holder = Trial()
    loop: list[Tensors] = []
    with bench.guarded(holder, "vmap"), torch.no_grad():
        loop = [pure(*[x.clone() for x in part]) for part in parts]
    if holder.failure is not None:
        return
    expected = [torch.stack(list(column)) for column in zip(*loop, strict=True)]
    names = [pure.base.names[p] for p in pure.base.tracked]
    if attempt(bench, "vmap", lambda: torch.func.vmap(pure)(*stacks), expected, names, dims="0"):
        if any(x.dim() for x in pure.inputs):
            moved = [s.movedim(0, -1) for s in stacks]
            attempt(bench, "vmap", lambda: torch.func.vmap(pure, in_dims=-1)(*moved), expected, names, dims="-1")
        if len(stacks) > 1:
            _one_batched(bench, pure, stacks, parts, names)
        _gradient_of_batch(bench, pure, stacks, parts)
    _batched_gradient(bench, pure, stacks, parts)


def _near(bench: Bench, x: torch.Tensor, key: str) -> torch.Tensor:
    """Values like those of a tensor, in another order and a little off."""
    if x.numel() == 0:
        return x.clone()
    order = torch.randperm(x.numel(), device="cpu", generator=bench.generator(f"near{key}")).to(x.device)
    mixed = x.reshape(-1)[order].reshape(x.shape)
    return mixed + 0.02 * mixed.abs().mean().to(x.dtype) * bench.random_like(x, f"near{key}")


def _one_batched(
    bench: Bench, pure: Pure, stacks: list[torch.Tensor], parts: list[list[torch.Tensor]], names: list[str]
) -> None:
    """Only one of the inputs is batched; the others are shared."""
    for k in range(len(stacks)):
        dims = tuple(0 if j == k else None for j in range(len(stacks)))
        given = [s if j == k else parts[0][j] for j, s in enumerate(stacks)]
        holder = Trial()
        loop: list[Tensors] = []
        with bench.guarded(holder, "vmap"), torch.no_grad():
            loop = [pure(*[(x if j == k else parts[0][j]).clone() for j, x in enumerate(part)]) for part in parts]
        if holder.failure is not None:
            return
        expected = [torch.stack(list(column)) for column in zip(*loop, strict=True)]
        attempt(
            bench,
            "vmap",
            lambda d=dims, g=given: torch.func.vmap(pure, in_dims=d)(*g),  # type: ignore[misc]
            expected,
            names,
            dims=f"only {pure.names[k]}",
        )


def _rows(bench: Bench, pure: Pure, parts: list[list[torch.Tensor]]) -> list[torch.Tensor] | None:
    """The gradients of a batch, one after another, by autograd."""
    rows = []
    sample = bench.sample
    for part in parts:
        rest = iter(part)
        one = sample.with_tensors(
            "one of a batch", [next(rest) if n else t for t, n in zip(sample.tensors, sample.needs, strict=True)]
        )
        trial = bench.run(one, cotangents=lambda o: pure.base.cotangents)
        if not trial.ok:
            return None
        rows.append([_or_zeros(trial.grads[i], one.tensors[i]) for i in sample.needed])
    return [torch.stack(list(column)) for column in zip(*rows, strict=True)]


def _gradient_of_batch(bench: Bench, pure: Pure, stacks: list[torch.Tensor], parts: list[list[torch.Tensor]]) -> None:
    """The gradient through vmap, by autograd outside it."""
    expected = _rows(bench, pure, parts)
    if expected is None:
        return
    leaves = [s.clone().requires_grad_() for s in stacks]

    def pull() -> Sequence[Any]:
        outputs = torch.func.vmap(pure)(*leaves)
        pairs = [(o, c) for o, c in zip(outputs, pure.base.cotangents, strict=True) if o.requires_grad]
        if not pairs:
            return [None] * len(leaves)
        given = [c.expand(o.shape).contiguous() for o, c in pairs]
        return torch.autograd.grad([o for o, _ in pairs], leaves, given, allow_unused=True)

    attempt(bench, "vmap", pull, expected, pure.names, dims="the gradient through vmap")


def _batched_gradient(bench: Bench, pure: Pure, stacks: list[torch.Tensor], parts: list[list[torch.Tensor]]) -> None:
    expected = _rows(bench, pure, parts)
    if expected is None:
        return
    cotangents = tuple(pure.base.cotangents)

    def per_sample() -> Sequence[Any]:
        def pull(*inputs: torch.Tensor) -> Any:
            return torch.func.vjp(pure, *inputs)[1](cotangents)

        found: Sequence[Any] = torch.func.vmap(pull)(*stacks)
        return found

    attempt(bench, "vmap of func.grad", per_sample, expected, pure.names)


def _or_zeros(grad: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(like) if grad is None else grad


@vmap_fallback_unmentioned()
def grads_batched(bench: Bench) -> None:
    """Several incoming gradients at once, as a Jacobian asks for them."""
    if ".data" in source_text(bench.seen):
        bench.skip("vmap of backward", "PyTorch crashes where `.data` meets the batches of is_grads_batched")
        return
    pure = pure_of(bench)
    if pure is None:
        return
    sets = [bench.cotangents(pure.base.attached, f"batch{n}") for n in range(2)]
    rows = []
    for given in sets:
        trial = bench.run(cotangents=given)
        if not trial.ok:
            return
        rows.append([_or_zeros(trial.grads[i], bench.sample.tensors[i]) for i in bench.sample.needed])
    expected = [torch.stack(list(column)) for column in zip(*rows, strict=True)]
    stacked = [torch.stack(list(column)) for column in zip(*sets, strict=True)]
    trial = bench.run(backward=False)

    def pull() -> Sequence[Any]:
        wanted = [trial.leaves[i] for i in bench.sample.needed]
        return torch.autograd.grad(trial.attached, wanted, stacked, is_grads_batched=True, allow_unused=True)

    attempt(bench, "vmap of backward", pull, expected, pure.names)


def second_functional(bench: Bench) -> None:
    """jacrev of the gradient (a Hessian), beside autograd twice, where both exist."""
    pure = pure_of(bench)
    if pure is None or sum(x.numel() for x in pure.inputs) > 64:
        return
    cotangents = pure.base.cotangents

    def scalar(*inputs: torch.Tensor) -> torch.Tensor:
        outputs = pure(*inputs)
        return sum((o * c.conj()).sum().real for o, c in zip(outputs, cotangents, strict=True))  # type: ignore[return-value]

    trial = bench.run(backward=False)
    g = bench.cotangents(trial.attached)
    bench.backward(trial, g, create_graph=True)
    first = pure.sample.needed[0]
    grad = trial.grads[first] if trial.ok else None
    if grad is None or not grad.requires_grad or grad.is_complex():
        bench.skip("func.hessian", "the gradient has no derivative with respect to the inputs")
        return
    weight = bench.random_like(grad, "hessian")
    holder = Trial()
    expected: Sequence[torch.Tensor | None] = [None]
    with bench.guarded(holder, "second backward"):
        expected = torch.autograd.grad((grad * weight).sum(), [trial.leaves[first]], allow_unused=True)
    if holder.failure is not None or expected[0] is None:
        return

    def hessian() -> Sequence[Any]:
        def weighted(x: torch.Tensor) -> torch.Tensor:
            slope: torch.Tensor = torch.func.grad(scalar)(x, *pure.inputs[1:])
            return (slope * weight).sum()

        return [torch.func.grad(weighted)(pure.inputs[0])]

    attempt(bench, "func.hessian", hessian, expected, pure.names[:1])
