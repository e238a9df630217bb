"""Precision and memory layout, of the inputs and of the incoming gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import jvp

from tests.transforms.cases import Case
from tests.transforms.expected import Expected, Tensors, inputs_of, sample
from tests.transforms.functional import tangents_of
from tests.transforms.group import Group, assert_backward, assert_same, caller, cast, leaves

group = Group(
    "Precision and layout",
    "float16, bfloat16, autocast, complex, transposed, expanded, channels_last, empty, 0-d",
)


def precision(case: Case, dtype: torch.dtype) -> None:
    assert_backward(case, leaves(case, dtype))


for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
    group.variant(str(dtype).removeprefix("torch."), dtype)(precision)
group.variant("complex128", torch.complex128, needs="complex")(precision)


@group.variant("complex128 jvp", needs="complex")
def complex_jvp(case: Case) -> None:
    inputs = inputs_of(case, dtype=torch.complex128)
    expected, tangents = Expected(case, inputs), tangents_of(inputs)
    values, pushed = jvp(caller(case), inputs, tangents)
    assert_same(values, expected.values)
    assert_same(pushed, expected.tangents(tangents))


@group.variant("autocast to bfloat16")
def autocast(case: Case) -> None:
    """Autocast may round inside; the gradient has the dtype of its input, in a backward outside of the block too."""
    inputs = leaves(case, torch.float32)
    expected = Expected(case, inputs)
    with torch.autocast("cpu", torch.bfloat16):
        values = caller(case)(*inputs)
    for value, wanted in zip(values, expected.values, strict=True):
        assert_same(value, wanted, value.dtype, torch.bfloat16)
    weights = [w.to(v.dtype) for w, v in zip(expected.weights(), values, strict=True)]
    gradients = torch.autograd.grad(values, inputs, weights)
    assert_same(gradients, expected.gradient(weights), torch.float32, torch.bfloat16)


@group.variant("autocast to bfloat16, after a matrix product")
def autocast_after_matmul(case: Case) -> None:
    """The operation gets bfloat16 activations, the parameters before it are float32."""
    inputs = leaves(case, torch.float32)
    mixing = sample((3, 3), 7, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        hidden = [x @ mixing for x in inputs]
        values = caller(case)(*hidden)
    assert {h.dtype for h in hidden} == {torch.bfloat16}
    expected = Expected(case, hidden)
    assert_same(values, expected.values, torch.bfloat16)
    weights = cast(expected.weights(), torch.bfloat16)
    gradients = torch.autograd.grad(values, [*hidden, *inputs], weights)
    assert_same(gradients[: len(hidden)], expected.gradient(weights), torch.bfloat16)
    mixed = [g @ mixing.double().mT for g in expected.gradient(weights)]
    assert_same(gradients[len(hidden) :], mixed, torch.float32, torch.bfloat16)


# Layouts: each gives tensors of any values in a certain layout --------------------------------------------------


def transposed(tensor: Tensor) -> Tensor:
    return tensor.mT.contiguous().mT


def expanded(tensor: Tensor) -> Tensor:
    return tensor[:1].expand(tensor.shape)


def strided(tensor: Tensor) -> Tensor:
    return torch.stack([tensor, tensor], -1)[..., 0]


def negative_bit(tensor: Tensor) -> Tensor:
    """The imaginary part of a conjugate: memory holds the opposite sign."""
    result = torch.complex(tensor, -tensor).conj().imag
    assert result.is_neg()
    return result


def channels_last(tensor: Tensor) -> Tensor:
    return tensor.to(memory_format=torch.channels_last)


LAYOUTS: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...] | None]] = {
    "transposed": (transposed, None),
    "expanded": (expanded, None),
    "strided": (strided, None),
    "negative bit": (negative_bit, None),
    "channels_last": (channels_last, (2, 3, 2, 2)),
    "empty": (torch.clone, (0, 3)),
    "0-d": (torch.clone, ()),
}


def shaped(case: Case, shape: tuple[int, ...] | None) -> Tensors:
    shapes = case.shapes if shape is None else [shape] * len(case.shapes)
    return tuple(sample(s, i) for i, s in enumerate(shapes))


def layout_of_inputs(case: Case, layout: Callable[[Tensor], Tensor], shape: tuple[int, ...] | None) -> None:
    assert_backward(case, tuple(layout(x).requires_grad_() for x in shaped(case, shape)))


def layout_of_gradients(case: Case, layout: Callable[[Tensor], Tensor], shape: tuple[int, ...] | None) -> None:
    inputs = tuple(x.requires_grad_() for x in shaped(case, shape))
    expected = Expected(case, inputs)
    values = caller(case)(*inputs)
    assert_same(values, expected.values)
    incoming = [layout(w) for w in expected.weights()]
    before = [g.clone() for g in incoming]
    gradients = torch.autograd.grad(values, inputs, incoming)
    assert_same(gradients, expected.gradient(incoming))
    assert_same(incoming, before)  # an incoming gradient belongs to others too


for name, (make, wanted) in LAYOUTS.items():
    needs = None if wanted is None else "any shape"
    group.variant(f"{name} input", make, wanted, needs=needs, tags=[name])(layout_of_inputs)
    group.variant(f"{name} incoming gradient", make, wanted, needs=needs, tags=[name])(layout_of_gradients)
