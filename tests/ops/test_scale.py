"""`scale_gradient` and `reverse_gradient`: values, laws, what they cost in memory, what they refuse."""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gradsmith as gs
from tests.ops.strategies import COMPLEX, REAL, numbers, same_bits, tensors


def gradient(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    leaf = x.detach().requires_grad_()
    return torch.autograd.grad(function(leaf), leaf, grad)[0]


def test_the_stated_example() -> None:
    grads = {}
    for name, scale in [("grad_half", 0.5), ("grad_reverse", -1.0)]:
        x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        gs.scale_gradient(x, scale).sum().backward()
        grads[name] = x.grad.tolist()
    assert grads == {"grad_half": [0.5, 0.5, 0.5, 0.5], "grad_reverse": [-1.0, -1.0, -1.0, -1.0]}


@given(tensors(REAL + COMPLEX), numbers)
def test_forward_is_the_identity_to_the_bit(x: torch.Tensor, scale: float) -> None:
    assert same_bits(gs.scale_gradient(x.requires_grad_(), scale).detach(), x.detach())
    assert same_bits(gs.reverse_gradient(x, scale).detach(), x.detach())


@given(tensors(REAL + COMPLEX), numbers)
def test_backward_multiplies(grad: torch.Tensor, scale: float) -> None:
    # grad has every layout and special value here; the product is torch's own, in the precision of grad
    x = torch.zeros_like(grad, memory_format=torch.contiguous_format)
    # (where the scale is 1, grad itself: torch's own product of a complex infinity and 1 has a nan in it)
    expected = torch.zeros_like(grad) if scale == 0 else grad if scale == 1 else grad * scale
    torch.testing.assert_close(
        gradient(lambda x: gs.scale_gradient(x, scale), x, grad), expected, rtol=0, atol=0, equal_nan=True
    )
    torch.testing.assert_close(
        gradient(lambda x: gs.reverse_gradient(x, -scale), x, grad), expected, rtol=0, atol=0, equal_nan=True
    )


@given(tensors([torch.float64], finite=True), st.floats(-4, 4), st.floats(-4, 4))
def test_scales_multiply(grad: torch.Tensor, a: float, b: float) -> None:
    x = torch.zeros(grad.shape, dtype=grad.dtype)
    twice = gradient(lambda x: gs.scale_gradient(gs.scale_gradient(x, a), b), x, grad)
    once = gradient(lambda x: gs.scale_gradient(x, a * b), x, grad)
    torch.testing.assert_close(twice, once)


@given(tensors(REAL))
def test_reversing_twice_is_the_identity(grad: torch.Tensor) -> None:
    x = torch.zeros(grad.shape, dtype=grad.dtype)
    twice = gradient(lambda x: gs.reverse_gradient(gs.reverse_gradient(x)), x, grad)
    torch.testing.assert_close(twice, grad, rtol=0, atol=0, equal_nan=True)


@given(tensors([torch.float64], finite=True), st.floats(-4, 4), st.floats(-4, 4))
def test_gradient_is_linear_in_the_incoming_gradient(grad: torch.Tensor, scale: float, factor: float) -> None:
    x, other = torch.zeros(grad.shape, dtype=grad.dtype), torch.full(grad.shape, 0.7, dtype=grad.dtype)

    def pull(g: torch.Tensor) -> torch.Tensor:
        return gradient(lambda x: gs.scale_gradient(x, scale), x, g)

    torch.testing.assert_close(pull(factor * grad + other), factor * pull(grad) + pull(other))


@pytest.mark.parametrize("grad", [math.inf, -math.inf, math.nan])
def test_scale_zero_gives_zeros_whatever_comes(grad: float) -> None:
    got = gradient(lambda x: gs.scale_gradient(x, 0.0), torch.ones(3), torch.full((3,), grad))
    assert same_bits(got, torch.zeros(3))


def test_scale_one_passes_the_gradient_itself() -> None:
    grad = torch.ones(3)
    got = gradient(lambda x: gs.scale_gradient(x, 1.0), torch.ones(3), grad)
    assert got.data_ptr() == grad.data_ptr()


def test_forward_copies_nothing_and_saves_nothing() -> None:
    x = torch.ones(3, requires_grad=True)
    saved: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        y = gs.scale_gradient(x, 0.5)
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert saved == []


def test_nothing_outlives_the_graph() -> None:
    gc.disable()
    try:
        x = torch.ones(3, requires_grad=True)
        h = x * 2
        y = gs.scale_gradient(h, 0.5)
        alive = [weakref.ref(h), weakref.ref(y)]
        y.sum().backward()
        del h, y
        assert [ref() for ref in alive] == [None, None]
    finally:
        gc.enable()


def test_no_node_where_no_gradient_is_wanted() -> None:
    x = torch.ones(3)
    assert gs.scale_gradient(x, 0.5).grad_fn is None
    with torch.no_grad():
        assert gs.scale_gradient(x.requires_grad_(), 0.5).grad_fn is None


def test_scale_is_read_when_called() -> None:
    scales = [0.5]
    x = torch.ones(3, requires_grad=True)
    y = gs.scale_gradient(x, scales[0])
    scales[0] = 100.0
    y.sum().backward()
    assert x.grad.tolist() == [0.5] * 3


@pytest.mark.parametrize("scale", [2, np.float64(2), np.float32(2), np.int64(2)], ids=lambda s: type(s).__name__)
def test_any_real_number_is_a_scale(scale: float) -> None:
    got = gradient(lambda x: gs.scale_gradient(x, scale), torch.ones(3), torch.ones(3))
    assert got.tolist() == [2.0] * 3
    assert got.dtype == torch.float32


@pytest.mark.parametrize(("op", "name"), [(gs.scale_gradient, "scale"), (gs.reverse_gradient, "strength")])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_scale_that_is_not_finite_is_refused(op: Callable[..., torch.Tensor], name: str, wrong: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is {wrong}; expected a finite number"):
        op(torch.ones(3, requires_grad=True), wrong)


@pytest.mark.parametrize(("op", "name"), [(gs.scale_gradient, "scale"), (gs.reverse_gradient, "strength")])
@pytest.mark.parametrize("wrong", ["0.5", None, True, 1j, [0.5], torch.tensor(0.5)], ids=repr)
def test_a_scale_that_is_no_number_is_refused(op: Callable[..., torch.Tensor], name: str, wrong: object) -> None:
    with pytest.raises(TypeError, match=f"{name} is a {type(wrong).__name__}"):
        op(torch.ones(3, requires_grad=True), wrong)


@pytest.mark.parametrize("wrong", [[1.0], 1.0, None, np.ones(3)], ids=lambda v: type(v).__name__)
def test_what_is_no_tensor_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match=f"x is a {type(wrong).__name__}; expected a torch.Tensor"):
        gs.scale_gradient(wrong, 0.5)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.uint8])
def test_an_integer_tensor_is_refused(dtype: torch.dtype) -> None:
    with pytest.raises(TypeError, match=f"x has dtype {dtype}, which has no gradient"):
        gs.scale_gradient(torch.ones(3).to(dtype), 0.5)


def test_it_reads_like_the_function_it_is() -> None:
    x = torch.ones(3, requires_grad=True)
    assert gs.scale_gradient(x=x, scale=0.5).grad_fn.name() == "scale_gradientBackward"
    with pytest.raises(TypeError, match=r"scale_gradient\(\) missing 1 required positional argument: 'scale'"):
        gs.scale_gradient(x)
