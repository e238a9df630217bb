"""Plain autograd in eager mode: first and second derivatives, and what a user may do around a call."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from tests.transforms.cases import Case
from tests.transforms.expected import Expected, inputs_of
from tests.transforms.group import Group, assert_backward, assert_same, caller, leaves, loss_of

group = Group(
    "Reverse mode",
    "backward, autograd.grad, second derivatives, batched gradients, unused outputs, in-place use, no_grad",
)


@group.variant("backward")
def backward(case: Case) -> None:
    inputs = leaves(case)
    expected = Expected(case, inputs)
    values = caller(case)(*inputs)
    assert_same(values, expected.values)
    torch.autograd.backward(values, expected.weights())
    assert_same([x.grad for x in inputs], expected.gradient(expected.weights()))


@group.variant("autograd.grad")
def autograd_grad(case: Case) -> None:
    assert_backward(case, leaves(case))


@group.variant("create_graph, second derivative", tags=["second"])
def second_derivative(case: Case) -> None:
    inputs = leaves(case)
    expected = Expected(case, inputs)
    loss, values = loss_of(case, expected.weights())(*inputs)
    assert_same(values, expected.values)
    gradients = torch.autograd.grad(loss, inputs, create_graph=True)
    assert_same(gradients, expected.loss_gradient())
    for gradient, rows in zip(gradients, expected.hessian(), strict=True):
        for position in range(gradient.numel()):
            unit = torch.zeros_like(gradient)
            unit.view(-1)[position] = 1
            second = torch.autograd.grad(
                gradient, inputs, unit, retain_graph=True, allow_unused=True, materialize_grads=True
            )
            assert_same(second, [row.flatten(0, gradient.dim() - 1)[position] for row in rows])


@group.variant("gradient penalty", tags=["second"])
def gradient_penalty(case: Case) -> None:
    """The incoming gradient needs no gradient itself: the place where a second derivative silently becomes 0."""
    inputs = leaves(case)
    expected = Expected(case, inputs)
    weights = expected.weights()
    values = caller(case)(*inputs)
    assert_same(values, expected.values)
    gradients = torch.autograd.grad(values, inputs, weights, create_graph=True)
    assert_same(gradients, expected.gradient(weights))
    penalty = sum((g * g).sum() for g in gradients)
    # A linear operation's gradient does not depend on its input and may have no graph: then 0 is right.
    actual = [torch.zeros_like(x) for x in inputs]
    if penalty.requires_grad:
        actual = torch.autograd.grad(penalty, inputs, allow_unused=True, materialize_grads=True)
    assert_same(actual, expected.penalty_gradient(weights))


@group.variant("is_grads_batched")
def grads_batched(case: Case) -> None:
    inputs = leaves(case)
    expected = Expected(case, inputs)
    incoming = [torch.stack([w, -2 * w, w * w]) for w in expected.weights()]
    values = caller(case)(*inputs)
    assert_same(values, expected.values)
    gradients = torch.autograd.grad(values, inputs, incoming, is_grads_batched=True)
    rows = [expected.gradient(row) for row in zip(*incoming, strict=True)]
    assert_same(gradients, [torch.stack(column) for column in zip(*rows, strict=True)])


@group.variant("one output unused", needs="two outputs")
def output_unused(case: Case) -> None:
    for used in range(case.outputs):
        inputs = leaves(case)
        expected = Expected(case, inputs)
        weights = [w if i == used else torch.zeros_like(w) for i, w in enumerate(expected.weights())]
        value = caller(case)(*inputs)[used]
        assert_same(value, expected.values[used])
        assert_same(torch.autograd.grad(value, inputs, weights[used]), expected.gradient(weights))


@group.variant("the same tensor twice", needs="two inputs")
def same_tensor_twice(case: Case) -> None:
    x = leaves(case)[0]
    expected = Expected(case, [x] * len(case.shapes))
    values = caller(case)(*[x] * len(case.shapes))
    assert_same(values, expected.values)
    (gradient,) = torch.autograd.grad(values, x, expected.weights())
    assert_same(gradient, sum(expected.gradient(expected.weights())))


@group.variant("in-place on the output")
def inplace_on_output(case: Case) -> None:
    """An output may share memory with its input, as a view does; writing to it must be allowed and differentiated."""
    for inputs in (leaves(case), tuple(x.clone() for x in leaves(case))):
        expected = Expected(case, [x.detach().clone() for x in inputs])
        values = caller(case)(*inputs)
        for value in values:
            value.mul_(2)
        assert_same(values, [2 * v for v in expected.values])
        gradients = torch.autograd.grad(values, inputs, expected.weights())
        assert_same(gradients, [2 * g for g in expected.gradient(expected.weights())])


@group.variant("an input that needs no gradient", needs="two inputs")
def one_input_constant(case: Case) -> None:
    for wanted in range(len(case.shapes)):
        inputs = inputs_of(case)
        inputs[wanted].requires_grad_()
        expected = Expected(case, inputs)
        values = caller(case)(*inputs)
        assert_same(values, expected.values)
        (gradient,) = torch.autograd.grad(values, inputs[wanted], expected.weights())
        assert_same(gradient, expected.gradient(expected.weights())[wanted])


def assert_no_graph(case: Case, inputs: tuple[Tensor, ...]) -> None:
    def refuse(tensor: Tensor) -> None:
        raise AssertionError(f"a tensor of shape {list(tensor.shape)} was saved for a backward that never comes")

    with saved_tensors_hooks(refuse, refuse):
        values = caller(case)(*inputs)
    assert_same(values, Expected(case, inputs).values)
    assert [(value.requires_grad, value.grad_fn) for value in values] == [(False, None)] * case.outputs


@group.variant("no input needs a gradient", tags=["forward only"])
def no_gradient_needed(case: Case) -> None:
    assert_no_graph(case, inputs_of(case))


@group.variant("no_grad", tags=["forward only"])
def no_grad(case: Case) -> None:
    with torch.no_grad():
        assert_no_graph(case, leaves(case))


@group.variant("inference_mode", tags=["forward only"])
def inference_mode(case: Case) -> None:
    with torch.inference_mode():
        assert_no_graph(case, inputs_of(case))
        assert_no_graph(case, leaves(case))
