"""torch.compile: the declared gradient must be in the compiled graph, under every transform around it.

Single precision, as in training; everything is compiled anew for each cell (`test_table.py` resets Dynamo).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

from tests.transforms.cases import Case
from tests.transforms.expected import Expected, inputs_of
from tests.transforms.functional import batch, stacked, tangents_of, with_aux
from tests.transforms.group import Group, assert_backward, assert_same, caller, cast, leaves, loss_of, positions

group = Group(
    "torch.compile",
    "fullgraph with aot_eager and inductor, around all of the above, dynamic shapes, changing numbers",
)

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
SINGLE = torch.float32


def compile_with(backend: str) -> Compile:
    return lambda function: torch.compile(function, fullgraph=True, backend=backend)


def compiled_backward(case: Case, compile: Compile) -> None:
    assert_backward(case, leaves(case, SINGLE), call=compile(caller(case)))


def compiled_grad(case: Case, compile: Compile) -> None:
    inputs = inputs_of(case, dtype=SINGLE)
    expected = Expected(case, inputs)
    loss = loss_of(case, cast(expected.weights(), SINGLE))
    gradients, values = compile(grad(loss, positions(case), has_aux=True))(*inputs)
    assert_same(values, expected.values, SINGLE)
    assert_same(gradients, expected.loss_gradient(), SINGLE)


def compiled_vmap_of_grad(case: Case, compile: Compile) -> None:
    rows, arguments, _ = batch(case, 0, SINGLE)
    loss = loss_of(case, cast(Expected(case, rows[0]).weights(), SINGLE))
    gradients, values = compile(vmap(grad(loss, positions(case), has_aux=True)))(*arguments)
    assert_same(values, stacked([Expected(case, row).values for row in rows]), SINGLE)
    assert_same(gradients, stacked([Expected(case, row).loss_gradient() for row in rows]), SINGLE)


def compiled_vmap_then_backward(case: Case, compile: Compile) -> None:
    rows, arguments, _ = batch(case, 0, SINGLE)
    arguments = tuple(a.requires_grad_() for a in arguments)
    values = compile(vmap(caller(case)))(*arguments)
    assert_same(values, stacked([Expected(case, row).values for row in rows]), SINGLE)
    weights = [Expected(case, row).weights() for row in rows]
    gradients = torch.autograd.grad(values, arguments, cast(stacked(weights), SINGLE))
    expected = [Expected(case, row).gradient(w) for row, w in zip(rows, weights, strict=True)]
    assert_same(gradients, stacked(expected), SINGLE)


def compiled_jvp(case: Case, compile: Compile) -> None:
    inputs = inputs_of(case, dtype=SINGLE)
    expected, tangents = Expected(case, inputs), tangents_of(inputs)
    call = caller(case)
    values, pushed = compile(lambda primals, tangents: jvp(call, primals, tangents))(inputs, tangents)
    assert_same(values, expected.values, SINGLE)
    assert_same(pushed, expected.tangents(tangents), SINGLE)


def compiled_jacfwd(case: Case, compile: Compile) -> None:
    inputs = inputs_of(case, dtype=SINGLE)
    expected = Expected(case, inputs)
    jacobian, values = compile(jacfwd(with_aux(caller(case)), positions(case), has_aux=True))(*inputs)
    assert_same(values, expected.values, SINGLE)
    assert_same(jacobian, expected.jacobian(), SINGLE)


def compiled_jacrev(case: Case, compile: Compile) -> None:
    inputs = inputs_of(case, dtype=SINGLE)
    expected = Expected(case, inputs)
    jacobian, values = compile(jacrev(with_aux(caller(case)), positions(case), has_aux=True))(*inputs)
    assert_same(values, expected.values, SINGLE)
    assert_same(jacobian, expected.jacobian(), SINGLE)


def compiled_hessian(case: Case, compile: Compile) -> None:
    inputs = inputs_of(case, dtype=SINGLE)
    expected = Expected(case, inputs)
    loss = loss_of(case, cast(expected.weights(), SINGLE))
    actual = compile(hessian(lambda *xs: loss(*xs)[0], positions(case)))(*inputs)
    assert_same(actual, expected.hessian(), SINGLE)


# Inductor compiles C++ for each cell. The rows marked slow use the same forms as those that are not.
ROWS: dict[str, tuple[Callable[[Case, Compile], None], list[str], bool]] = {
    "compile then backward": (compiled_backward, [], False),
    "compile(func.grad)": (compiled_grad, [], False),
    "compile(vmap(grad))": (compiled_vmap_of_grad, [], False),
    "compile(vmap) then backward": (compiled_vmap_then_backward, [], False),
    "compile(jvp)": (compiled_jvp, [], False),
    "compile(jacfwd)": (compiled_jacfwd, [], False),
    "compile(jacrev)": (compiled_jacrev, [], True),
    "compile(hessian)": (compiled_hessian, ["second"], True),
}
for name, (function, tags, slow) in ROWS.items():
    for backend in ("aot_eager", "inductor"):
        add = group.variant(
            f"{name} {backend}",
            compile_with(backend),
            tags=["fullgraph", backend, *tags],
            slow=slow and backend == "inductor",
        )
        add(function)


@group.variant("compile without fullgraph then backward")
def graph_breaks_allowed(case: Case) -> None:
    assert_backward(case, leaves(case, SINGLE), call=torch.compile(caller(case), backend="aot_eager"))


@group.variant("compile(func.grad) without fullgraph")
def graph_breaks_allowed_in_grad(case: Case) -> None:
    compiled_grad(case, lambda function: torch.compile(function, backend="aot_eager"))


@group.variant("compile of autograd.grad inside", tags=["fullgraph"])
def autograd_grad_inside(case: Case) -> None:
    """A training step compiled as a whole, which torch 2.13 traces only on request."""
    inputs = leaves(case, SINGLE)
    expected = Expected(case, inputs)
    weights, call = cast(expected.weights(), SINGLE), caller(case)

    def step(*inputs: torch.Tensor) -> Any:
        values = call(*inputs)
        return [v.detach() for v in values], torch.autograd.grad(values, inputs, weights)

    with torch._dynamo.config.patch(trace_autograd_ops=True):
        values, gradients = torch.compile(step, fullgraph=True, backend="aot_eager")(*inputs)
    assert_same(values, expected.values, SINGLE)
    assert_same(gradients, expected.gradient(weights), SINGLE)


@group.variant("compile with dynamic shapes", tags=["fullgraph"])
def dynamic_shapes(case: Case) -> None:
    compiled = torch.compile(caller(case), fullgraph=True, backend="aot_eager", dynamic=True)
    for grow in (0, 2, 3):
        assert_backward(case, leaves(case, SINGLE, grow=grow), call=compiled)


@group.variant("compile with a changing number", needs="a number", tags=["fullgraph"])
def changing_number(case: Case) -> None:
    function = case.function

    def call(inputs: Any, options: Any) -> Any:
        value = function(*inputs, **options)
        return value if isinstance(value, tuple) else (value,)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    third = {name: value + 0.125 for name, value in case.other_options.items()}
    for options in (dict(case.options), dict(case.other_options), third):
        assert_backward(
            case, leaves(case, SINGLE), call=lambda *inputs, o=options: compiled(inputs, o), options=options
        )
