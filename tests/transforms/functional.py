"""torch.func and forward mode, in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from tests.transforms.cases import Case
from tests.transforms.expected import Expected, Tensors, inputs_of, sample
from tests.transforms.group import Group, assert_same, caller, leaves, loss_of, positions

group = Group(
    "torch.func and forward mode",
    "grad, vjp, jacrev, vmap in every in_dims, jvp, jacfwd, hessian, forward_ad",
)

Dims = tuple[int | None, ...]


@group.variant("grad")
def func_grad(case: Case) -> None:
    inputs = inputs_of(case)
    expected = Expected(case, inputs)
    gradients, values = grad(loss_of(case, expected.weights()), argnums=positions(case), has_aux=True)(*inputs)
    assert_same(values, expected.values)
    assert_same(gradients, expected.loss_gradient())


@group.variant("vjp")
def func_vjp(case: Case) -> None:
    inputs = inputs_of(case)
    expected = Expected(case, inputs)
    values, pull = vjp(caller(case), *inputs)
    assert_same(values, expected.values)
    assert_same(pull(expected.weights()), expected.gradient(expected.weights()))


@group.variant("jacrev")
def func_jacrev(case: Case) -> None:
    inputs = inputs_of(case)
    expected = Expected(case, inputs)
    jacobian, values = jacrev(with_aux(caller(case)), positions(case), has_aux=True)(*inputs)
    assert_same(values, expected.values)
    assert_same(jacobian, expected.jacobian())


@group.variant("jacrev of jacrev", tags=["second"])
def func_jacrev_twice(case: Case) -> None:
    assert_hessian(case, lambda loss, numbers: jacrev(jacrev(loss, numbers), numbers))


@group.variant("jvp", tags=["forward mode"])
def func_jvp(case: Case) -> None:
    inputs = inputs_of(case)
    expected, tangents = Expected(case, inputs), tangents_of(inputs)
    values, pushed = jvp(caller(case), inputs, tangents)
    assert_same(values, expected.values)
    assert_same(pushed, expected.tangents(tangents))


@group.variant("jacfwd", tags=["forward mode"])
def func_jacfwd(case: Case) -> None:
    inputs = inputs_of(case)
    expected = Expected(case, inputs)
    jacobian, values = jacfwd(with_aux(caller(case)), positions(case), has_aux=True)(*inputs)
    assert_same(values, expected.values)
    assert_same(jacobian, expected.jacobian())


@group.variant("hessian", tags=["second", "forward mode"])
def func_hessian(case: Case) -> None:
    assert_hessian(case, hessian)


@group.variant("forward_ad", tags=["forward mode"])
def dual_numbers(case: Case) -> None:
    inputs = inputs_of(case)
    expected, tangents = Expected(case, inputs), tangents_of(inputs)
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(x, t) for x, t in zip(inputs, tangents, strict=True)]
        values = [forward_ad.unpack_dual(v) for v in caller(case)(*duals)]
    assert_same([v.primal for v in values], expected.values)
    assert_same([v.tangent for v in values], expected.tangents(tangents))


@group.variant("forward_ad over autograd.grad", tags=["second", "forward mode"])
def forward_over_reverse(case: Case) -> None:
    inputs = leaves(case)
    expected, tangents = Expected(case, inputs), tangents_of(inputs)
    with forward_ad.dual_level():
        duals = tuple(forward_ad.make_dual(x, t) for x, t in zip(inputs, tangents, strict=True))
        loss, _ = loss_of(case, expected.weights())(*duals)
        gradients = torch.autograd.grad(loss, duals)
        parts = [forward_ad.unpack_dual(g) for g in gradients]
    assert_same([p.primal for p in parts], expected.loss_gradient())
    products = [
        sum(torch.tensordot(block, t, t.dim()) for block, t in zip(row, tangents, strict=True))
        for row in expected.hessian()
    ]
    assert_same([p.tangent for p in parts], products)


# vmap, over every dimension ---------------------------------------------------------------------------------------

ONE_DIM = {"in_dims=0": 0, "in_dims=1": 1, "in_dims=-1": -1}
MIXED_DIMS: dict[str, Dims] = {"in_dims=(0, None)": (0, None), "in_dims=(None, 1)": (None, 1)}


def vmap_then_backward(case: Case, dims: Dims | int) -> None:
    rows, arguments, dims = batch(case, dims)
    arguments = tuple(a.requires_grad_() for a in arguments)
    values = vmap(caller(case), dims)(*arguments)
    assert_same(values, stacked([Expected(case, row).values for row in rows]))
    incoming = [torch.stack([(i + 1) * w for i in range(len(rows))]) for w in Expected(case, rows[0]).weights()]
    gradients = torch.autograd.grad(values, arguments, incoming)
    of_rows = [Expected(case, row).gradient(g) for row, g in zip(rows, zip(*incoming, strict=True), strict=True)]
    for gradient, by_row, dim in zip(gradients, stacked(of_rows), dims, strict=True):
        assert_same(gradient, by_row.sum(0) if dim is None else by_row.movedim(0, dim))


def vmap_of_grad(case: Case, dims: Dims | int) -> None:
    rows, arguments, dims = batch(case, dims)
    weights = Expected(case, rows[0]).weights()
    gradients, values = vmap(grad(loss_of(case, weights), positions(case), has_aux=True), dims)(*arguments)
    assert_same(values, stacked([Expected(case, row).values for row in rows]))
    assert_same(gradients, stacked([Expected(case, row).loss_gradient() for row in rows]))


for label, dim in ONE_DIM.items():
    group.variant(f"vmap {label} then backward", dim)(vmap_then_backward)
    group.variant(f"vmap(grad) {label}", dim)(vmap_of_grad)
for label, mixed in MIXED_DIMS.items():
    group.variant(f"vmap {label} then backward", mixed, needs="two inputs")(vmap_then_backward)
    group.variant(f"vmap(grad) {label}", mixed, needs="two inputs")(vmap_of_grad)


@group.variant("nested vmap then backward")
def nested_vmap(case: Case) -> None:
    blocks = [batch(case, 0, first=10 * i) for i in range(2)]
    arguments = [torch.stack(column, -1).requires_grad_() for column in zip(*[b[1] for b in blocks], strict=True)]
    values = vmap(vmap(caller(case), 0), -1)(*arguments)
    expected = [[Expected(case, row) for row in rows] for rows, _, _ in blocks]
    assert_same(values, stacked([stacked([e.values for e in row]) for row in expected]))
    weights = expected[0][0].weights()
    gradients = torch.autograd.grad(values, arguments, [w.expand(2, 3, *w.shape) for w in weights])
    by_row = stacked([stacked([e.gradient(weights) for e in row]) for row in expected])
    assert_same(gradients, [g.movedim(0, -1) for g in by_row])


@group.variant("nested vmap(grad)")
def nested_vmap_of_grad(case: Case) -> None:
    blocks = [batch(case, 0, first=10 * i) for i in range(2)]
    arguments = [torch.stack(column, -1) for column in zip(*[b[1] for b in blocks], strict=True)]
    expected = [[Expected(case, row) for row in rows] for rows, _, _ in blocks]
    of_one = grad(loss_of(case, expected[0][0].weights()), positions(case), has_aux=True)
    gradients, values = vmap(vmap(of_one, 0), -1)(*arguments)
    assert_same(values, stacked([stacked([e.values for e in row]) for row in expected]))
    assert_same(gradients, stacked([stacked([e.loss_gradient() for e in row]) for row in expected]))


@group.variant("vmap(jvp)", tags=["forward mode"])
def vmap_of_jvp(case: Case) -> None:
    rows, arguments, dims = batch(case, 0)
    tangents = [tangents_of(row) for row in rows]
    values, pushed = vmap(lambda *both: jvp(caller(case), both[: len(dims)], both[len(dims) :]))(
        *arguments, *stacked(tangents)
    )
    assert_same(values, stacked([Expected(case, row).values for row in rows]))
    assert_same(pushed, stacked([Expected(case, row).tangents(t) for row, t in zip(rows, tangents, strict=True)]))


@group.variant("jvp of vmap", tags=["forward mode"])
def jvp_of_vmap(case: Case) -> None:
    rows, arguments, _ = batch(case, 0)
    tangents = [tangents_of(row) for row in rows]
    values, pushed = jvp(vmap(caller(case)), arguments, stacked(tangents))
    assert_same(values, stacked([Expected(case, row).values for row in rows]))
    assert_same(pushed, stacked([Expected(case, row).tangents(t) for row, t in zip(rows, tangents, strict=True)]))


@group.variant("vmap(hessian)", tags=["second", "forward mode"])
def vmap_of_hessian(case: Case) -> None:
    rows, arguments, _ = batch(case, 0)
    loss = loss_of(case, Expected(case, rows[0]).weights())
    actual = vmap(hessian(lambda *xs: loss(*xs)[0], positions(case)))(*arguments)
    of_rows = [Expected(case, row).hessian() for row in rows]
    assert_same(actual, [stacked([h[i] for h in of_rows]) for i in positions(case)])


# What the variants share ------------------------------------------------------------------------------------------


def tangents_of(inputs: Sequence[Tensor]) -> Tensors:
    return tuple(sample(x.shape, 500 + i, x.dtype) for i, x in enumerate(inputs))


def with_aux(call: Callable[..., Tensors]) -> Callable[..., tuple[Tensors, Tensors]]:
    """A function whose values the Jacobian transforms hand out beside their derivative."""

    def twice(*inputs: Tensor) -> tuple[Tensors, Tensors]:
        values = call(*inputs)
        return values, values

    return twice


def assert_hessian(case: Case, transform: Callable[..., Any]) -> None:
    inputs = inputs_of(case)
    expected = Expected(case, inputs)
    loss = loss_of(case, expected.weights())
    assert_same(transform(lambda *xs: loss(*xs)[0], positions(case))(*inputs), expected.hessian())


def batch(
    case: Case, dims: Dims | int, dtype: torch.dtype = torch.float64, first: int = 0
) -> tuple[list[Tensors], Tensors, Dims]:
    """Three rows of inputs, the same rows as batched arguments, and the batch dimension of each."""
    dims = dims if isinstance(dims, tuple) else (dims,) * len(case.shapes)
    rows = [inputs_of(case, first + number, dtype) for number in range(3)]
    shared = rows[0]
    rows = [tuple(s if d is None else x for s, x, d in zip(shared, row, dims, strict=True)) for row in rows]
    columns = zip(*rows, strict=True)
    arguments = [c[0] if d is None else torch.stack(c, d) for c, d in zip(columns, dims, strict=True)]
    return rows, tuple(arguments), dims


def stacked(rows: Sequence[Sequence[Tensor]]) -> Tensors:
    return tuple(torch.stack(tuple(column)) for column in zip(*rows, strict=True))
