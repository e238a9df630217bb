"""The seed exercises by value, against formulas written another way."""

import pytest
import torch
from torch import Tensor

from gradsmith.learn import GradientScale, SplitAndScale

INPUTS = {
    "stated": torch.tensor([-3.0, -1.0, 0.0, 2.0, 4.0]),
    "double": torch.tensor([-0.1, 0.1, 0.0, 1e200], dtype=torch.float64),
    "half": torch.tensor([-3.0, 0.0, 4.0], dtype=torch.float16),
    "bfloat16": torch.tensor([-3.0, 0.0, 4.0], dtype=torch.bfloat16),
    "zero-dimensional": torch.tensor(-2.0),
    "empty": torch.empty(0),
    "empty matrix": torch.empty(3, 0),
    "non-contiguous": torch.arange(-6.0, 6.0).reshape(3, 4).t(),
    "expanded": torch.tensor([[-1.0], [2.0]]).expand(2, 3),
    "negative zero": torch.tensor([-0.0, 0.0]),
    "infinite": torch.tensor([-torch.inf, torch.inf]),
}


@pytest.fixture(params=INPUTS.values(), ids=INPUTS.keys())
def x(request: pytest.FixtureRequest) -> Tensor:
    return request.param.clone(memory_format=torch.preserve_format).requires_grad_()


def weights(x: Tensor) -> Tensor:
    """Incoming gradients that differ from element to element, none of them zero."""
    return (torch.arange(x.numel(), dtype=x.dtype) % 5 + 1).reshape(x.shape)


def has_negative_zero(tensor: Tensor) -> bool:
    return bool(((tensor == 0) & torch.signbit(tensor)).any())


def per_element(function, *tensors: Tensor) -> Tensor:
    """The same formula on Python numbers, one element at a time."""
    columns = [tensor.detach().flatten().tolist() for tensor in tensors]
    flat = [function(*values) for values in zip(*columns, strict=True)]
    return torch.tensor(flat, dtype=tensors[0].dtype).reshape(tensors[0].shape)


def assert_same(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=0, atol=0)
    assert not has_negative_zero(actual)


def split_gradient(x: float, g_positive: float, g_negative: float) -> float:
    if x > 0:
        return 2 * g_positive
    return -g_negative if x < 0 else 0.0


class TestSplitAndScale:
    def test_stated_example(self):
        x = INPUTS["stated"].clone().requires_grad_()
        positive, negative = SplitAndScale.apply(x)
        (positive.sum() + negative.sum()).backward()
        assert positive.tolist() == [0.0, 0.0, 0.0, 4.0, 8.0]
        assert negative.tolist() == [3.0, 1.0, 0.0, 0.0, 0.0]
        assert x.grad.tolist() == [-1.0, -1.0, 0.0, 2.0, 2.0]
        assert not any(has_negative_zero(t) for t in (positive, negative, x.grad))

    def test_outputs(self, x):
        positive, negative = SplitAndScale.apply(x)
        assert_same(positive, per_element(lambda v: 2 * v if v > 0 else 0.0, x))
        assert_same(negative, per_element(lambda v: -v if v < 0 else 0.0, x))

    def test_both_incoming_gradients_are_combined(self, x):
        g_positive, g_negative = weights(x), weights(x) + 10
        (grad,) = torch.autograd.grad(SplitAndScale.apply(x), x, (g_positive, g_negative))
        assert_same(grad, per_element(split_gradient, x, g_positive, g_negative))

    @pytest.mark.parametrize("used", [0, 1])
    def test_an_unused_output_sends_zeros(self, x, used):
        gradients = [torch.zeros_like(x), torch.zeros_like(x)]
        gradients[used] = weights(x)
        (grad,) = torch.autograd.grad(SplitAndScale.apply(x)[used], x, weights(x))
        assert_same(grad, per_element(split_gradient, x, *gradients))

    def test_nan_comes_out_as_nan(self):
        positive, negative = SplitAndScale.apply(torch.tensor([torch.nan]))
        assert positive.isnan().all()
        assert negative.isnan().all()

    def test_infinite_gradient_on_the_other_side_is_not_mixed_in(self):
        x = torch.tensor([-1.0, 1.0], requires_grad=True)
        infinite = torch.full((2,), torch.inf)
        (grad,) = torch.autograd.grad(SplitAndScale.apply(x), x, (infinite, torch.ones(2)))
        assert grad.tolist() == [-1.0, torch.inf]

    def test_agrees_with_finite_differences_away_from_the_kink(self):
        x = torch.tensor([-2.0, -0.5, 0.5, 3.0], dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(SplitAndScale.apply, (x,))
        assert torch.autograd.gradgradcheck(SplitAndScale.apply, (x,))

    def test_saves_x_and_nothing_else(self):
        x = INPUTS["stated"].clone().requires_grad_()
        positive, _ = SplitAndScale.apply(x)
        (saved,) = positive.grad_fn.saved_tensors
        assert saved.data_ptr() == x.data_ptr()


class TestGradientScale:
    def test_stated_example(self):
        x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        (half,) = torch.autograd.grad(GradientScale.apply(x, 0.5).sum(), x)
        (reverse,) = torch.autograd.grad(GradientScale.apply(x, -1.0).sum(), x)
        assert half.tolist() == [0.5, 0.5, 0.5, 0.5]
        assert reverse.tolist() == [-1.0, -1.0, -1.0, -1.0]

    def test_the_value_is_unchanged(self, x):
        y = GradientScale.apply(x, 0.5)
        assert torch.equal(y, x)
        assert y.dtype == x.dtype
        assert torch.equal(torch.signbit(y), torch.signbit(x))

    @pytest.mark.parametrize("scale", [0.5, -1.0, 3, 0.0])
    def test_gradient(self, x, scale):
        (grad,) = torch.autograd.grad(GradientScale.apply(x, scale), x, weights(x))
        assert_same(grad, per_element(lambda g: g * scale, weights(x)))

    def test_scale_is_kept_as_a_plain_number(self):
        y = GradientScale.apply(torch.ones(2, requires_grad=True), 0.5)
        assert y.grad_fn.scale == 0.5
        assert y.grad_fn.saved_tensors == ()

    def test_the_output_may_be_changed_in_place(self):
        x = torch.ones(3, requires_grad=True)
        y = GradientScale.apply(x * 1, 0.5)
        y.mul_(3)
        y.sum().backward()
        assert x.grad.tolist() == [1.5, 1.5, 1.5]

    def test_second_derivative(self):
        x = torch.tensor([2.0], dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(GradientScale.apply(x, 0.5).pow(3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert first.item() == 0.5 * 3 * 4.0
        # d/dx of 0.5 * 3 * y**2, whose y passes GradientScale once more: 0.5 * 0.5 * 6 * y
        assert second.item() == 0.5 * 0.5 * 6 * 2.0
