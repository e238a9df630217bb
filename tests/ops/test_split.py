"""`split_and_scale`: values against a formula written element by element, laws, layouts, memory, refusals."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import gradsmith as gs
from gradsmith.learn.seeds import SplitAndScale
from gradsmith.ops import _pieces
from tests.ops.strategies import tensors

scales = st.one_of(st.sampled_from([0.0, 1.0, -1.0, 2.0, -2.0, 1e30, 1e-30]), st.floats(-8, 8, width=32))


def one_element(x: float, positive_scale: float, negative_scale: float) -> tuple[float, float]:
    """Both outputs for one number, as a person would write them down."""
    if math.isnan(x):
        return (x if positive_scale else 0.0), (x if negative_scale else 0.0)
    positive = x * positive_scale if x > 0 and positive_scale else 0.0
    negative = x * negative_scale if x < 0 and negative_scale else 0.0
    return positive, negative


def by_hand(x: torch.Tensor, positive_scale: float, negative_scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [one_element(v, positive_scale, negative_scale) for v in x.double().flatten().tolist()]
    positive = torch.tensor([p for p, _ in pairs], dtype=torch.float64).reshape(x.shape)
    negative = torch.tensor([n for _, n in pairs], dtype=torch.float64).reshape(x.shape)
    return positive, negative


def assert_same(got: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(got, expected.to(got.dtype), equal_nan=True)
    assert not (torch.signbit(got) & (got == 0)).any(), "-0.0 appeared"


def test_the_stated_example() -> None:
    x = torch.tensor([-3.0, -1.0, 0.0, 2.0, 4.0], requires_grad=True)
    positive, negative = gs.split_and_scale(x)
    (positive.sum() + negative.sum()).backward()
    assert positive.tolist() == [0.0, 0.0, 0.0, 4.0, 8.0]
    assert negative.tolist() == [3.0, 1.0, 0.0, 0.0, 0.0]
    assert x.grad.tolist() == [-1.0, -1.0, 0.0, 2.0, 2.0]
    assert not any(torch.signbit(t[t == 0]).any() for t in (positive, negative, x.grad))


@given(tensors([torch.float32, torch.float64]), scales, scales)
def test_forward(x: torch.Tensor, positive_scale: float, negative_scale: float) -> None:
    got = gs.split_and_scale(x, positive_scale, negative_scale)
    for output, expected in zip(got, by_hand(x, positive_scale, negative_scale), strict=True):
        torch.testing.assert_close(output, expected.to(output.dtype), equal_nan=True)


@given(tensors(), tensors())
def test_no_negative_zero_by_default(x: torch.Tensor, g: torch.Tensor) -> None:
    leaf = x.detach().requires_grad_()
    outputs = gs.split_and_scale(leaf)
    grad = torch.autograd.grad(sum(o.nan_to_num(0.0).sum() for o in outputs), leaf)[0]
    for t in (*outputs, grad):
        assert not (torch.signbit(t) & (t == 0)).any()


@given(tensors(), scales, scales, st.integers(0, 2**16))
def test_backward(x: torch.Tensor, positive_scale: float, negative_scale: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    of_positive, of_negative = (torch.randn(x.shape, generator=generator).to(x.dtype) for _ in range(2))
    leaf = x.detach().requires_grad_()
    got = torch.autograd.grad(
        gs.split_and_scale(leaf, positive_scale, negative_scale), leaf, (of_positive, of_negative)
    )[0]
    expected = [
        p * positive_scale if v > 0 else n * negative_scale if v < 0 else 0.0
        for v, p, n in zip(*(t.double().flatten().tolist() for t in (x, of_positive, of_negative)), strict=True)
    ]
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64).reshape(x.shape).to(x.dtype))


@pytest.mark.parametrize("used", [0, 1])
@pytest.mark.parametrize("count", [5, _pieces.PIECE + 5])
def test_an_unused_output_contributes_nothing(used: int, count: int) -> None:
    x = torch.linspace(-1, 1, count, requires_grad=True)
    gs.split_and_scale(x)[used].sum().backward()
    expected = torch.where(x > 0, 2.0, 0.0) if used == 0 else torch.where(x < 0, -1.0, 0.0)
    assert_same(x.grad, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("scales", [(2.0, -1.0), (-2.0, 3.0), (0.0, 0.5), (1.5, 0.0)], ids=str)
def test_large_tensors_are_worked_in_pieces_to_the_same_values(dtype: torch.dtype, scales: tuple[float, float]) -> None:
    generator = torch.Generator().manual_seed(1)
    count = 2 * _pieces.PIECE + 13
    x, of_positive, of_negative = (torch.randn(count, generator=generator).to(dtype) for _ in range(3))
    x[:6] = torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf, 0.0])
    of_positive[:6] = of_negative[:6] = math.inf
    large = x.clone().requires_grad_()
    outputs = gs.split_and_scale(large, *scales)
    grad = torch.autograd.grad(outputs, large, (of_positive, of_negative))[0]
    # The same in parts that are too small for pieces.
    for part in torch.arange(count).split(_pieces.PIECE // 2):
        small = x[part].requires_grad_()
        expected = gs.split_and_scale(small, *scales)
        torch.testing.assert_close([o[part] for o in outputs], list(expected), rtol=0, atol=0, equal_nan=True)
        expected_grad = torch.autograd.grad(expected, small, (of_positive[part], of_negative[part]))[0]
        torch.testing.assert_close(grad[part], expected_grad, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "layout", ["expanded gradient", "transposed gradient", "transposed x", "one gradient expanded"]
)
def test_large_tensors_of_every_layout(layout: str) -> None:
    generator = torch.Generator().manual_seed(2)
    x, of_positive, of_negative = (torch.randn(600, 600, generator=generator) for _ in range(3))
    if layout == "expanded gradient":
        of_positive, of_negative = torch.tensor(1.5).expand(600, 600), torch.tensor(-0.5).expand(600, 600)
    if layout == "one gradient expanded":
        of_positive = torch.tensor(1.5).expand(600, 600)
    if layout == "transposed gradient":
        of_positive, of_negative = of_positive.t(), of_negative.t()
    if layout == "transposed x":
        x = x.t()
    leaf = x.detach().requires_grad_()
    got = torch.autograd.grad(gs.split_and_scale(leaf), leaf, (of_positive, of_negative))[0]
    assert_same(got, torch.where(x > 0, 2 * of_positive, torch.where(x < 0, -of_negative, 0.0)))


@pytest.mark.parametrize("count", [3, _pieces.PIECE + 3])
@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)], ids=str)
def test_a_zero_gradient_stays_a_positive_zero(used: tuple[int, ...], count: int) -> None:
    for zero in (0.0, -0.0):
        x = torch.linspace(-1, 1, count, requires_grad=True)
        outputs = [gs.split_and_scale(x, 2.0, -1.0)[i] for i in used]
        grad = torch.autograd.grad(outputs, x, [torch.full((count,), zero)] * len(used))[0]
        assert_same(grad, torch.zeros(count))


def test_agrees_with_the_exercise() -> None:
    x = torch.randn(7, 5, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    a, b = gs.split_and_scale(ours), SplitAndScale.apply(theirs)
    assert torch.equal(a[0], b[0])
    assert torch.equal(a[1], b[1])
    for outputs, leaf in ((a, ours), (b, theirs)):
        (outputs[0].sin().sum() + outputs[1].exp().sum()).backward()
        assert leaf.grad is not None
    assert torch.equal(ours.grad, theirs.grad)


def test_only_x_is_kept() -> None:
    x = torch.ones(3, requires_grad=True)
    saved: list[torch.Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        gs.split_and_scale(x)
    assert [t.data_ptr() for t in saved] == [x.data_ptr()]


@pytest.mark.parametrize("name", ["positive_scale", "negative_scale"])
@pytest.mark.parametrize("wrong", [math.nan, math.inf, "2", None, True])
def test_a_scale_that_is_no_finite_number_is_refused(name: str, wrong: object) -> None:
    with pytest.raises((TypeError, ValueError), match=f"split_and_scale: {name} is"):
        gs.split_and_scale(torch.ones(3), **{name: wrong})


@pytest.mark.parametrize("wrong", [torch.ones(2, dtype=torch.complex64), torch.arange(3), [1.0]], ids=str)
def test_what_has_no_sign_or_gradient_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="split_and_scale: x"):
        gs.split_and_scale(wrong)


def test_arguments_by_name_and_position_agree() -> None:
    x = torch.tensor([-2.0, 3.0])
    for a, b in itertools.pairwise([gs.split_and_scale(x, 3.0, -2.0), gs.split_and_scale(x, 3.0, negative_scale=-2.0)]):
        assert a[0].tolist() == b[0].tolist() == [0.0, 9.0]
        assert a[1].tolist() == b[1].tolist() == [4.0, 0.0]
