"""A gradient taken from another function: the value is the one's, every derivative the other's."""

import numpy as np
import pytest
import torch
from torch.func import grad, hessian, jacfwd, jvp, vmap
from torch.testing import assert_close

import gradsmith as gs
from tests.declare.helpers import gradient, second, vector


@gs.gradient_of(torch.sin)
def floor_like_sin(x):
    return torch.floor(x)


def test_value_and_gradient():
    x = vector(0.5, 1.5)
    assert floor_like_sin(x).tolist() == [0.0, 1.0]
    assert_close(gradient(floor_like_sin, x), x.detach().cos())


def test_higher_derivatives_are_the_surrogates():
    x = vector()
    plain = x.detach()
    one = torch.ones_like(plain)
    assert_close(second(floor_like_sin, x), -plain.sin())
    assert_close(grad(grad(grad(floor_like_sin)))(torch.tensor(0.7)), -torch.tensor(0.7).cos())
    assert_close(hessian(lambda x: floor_like_sin(x).sum())(plain), torch.diag(-plain.sin()))
    assert_close(jvp(lambda x: jvp(floor_like_sin, (x,), (one,))[1], (plain,), (one,))[1], -plain.sin())
    assert_close(vmap(jacfwd(floor_like_sin))(plain), plain.cos())


def test_the_value_is_exact_where_the_usual_trick_is_not():
    x = torch.tensor([1e20, float("inf"), float("nan"), -0.0], requires_grad=True)
    f = gs.straight_through(lambda x: torch.where(x > 1, 0.1, x))
    assert torch.equal(torch.signbit(f(x)), torch.tensor([False, False, False, True]))
    assert f(x)[:2].tolist() == torch.tensor([0.1, 0.1]).tolist()
    assert f(x)[2].isnan()


def test_a_forward_of_numpy():
    f = gs.straight_through(lambda x: torch.as_tensor(np.round(x.detach().numpy())))
    x = vector(0.4, 1.6)
    assert f(x).tolist() == [0.0, 2.0]
    assert_close(gradient(lambda x: 3 * f(x), x), torch.full_like(x, 3))
    assert_close(vmap(grad(f))(x.detach()), torch.ones_like(x))


def test_parameters_are_matched_by_name():
    a, b = vector(1.0, 2.0), vector(3.0, 4.0)
    f = gs.gradient_of(lambda b, a: 2 * a + 5 * b)(lambda a, b, mode="round": a.round() + b)
    grad_a, grad_b = gradient(f, a, b)
    assert_close(grad_a, torch.full_like(a, 2))
    assert_close(grad_b, torch.full_like(a, 5))


def test_parameters_of_other_names_are_matched_by_position():
    a, b = vector(1.0, 2.0), vector(3.0, 4.0)
    grad_a, grad_b = gradient(gs.gradient_of(lambda p, q: 2 * p + 5 * q)(lambda a, b: a * b), a, b)
    assert_close(grad_a, torch.full_like(a, 2))
    assert_close(grad_b, torch.full_like(a, 5))


def test_a_surrogate_may_ask_for_less():
    a, b = vector(1.0, 2.0), vector(3.0, 4.0)
    f = gs.gradient_of(lambda b: 5 * b)(lambda a, b: a * b)
    (a_grad, b_grad) = torch.autograd.grad(f(a, b).sum(), (a, b), allow_unused=True)
    assert a_grad is None
    assert_close(b_grad, torch.full_like(a, 5))


def test_names_that_agree_only_in_part_are_refused():
    with pytest.raises(gs.DeclarationError, match="'q'"):
        gs.gradient_of(lambda b, q: 2 * q + 5 * b)(lambda a, b: a * b)


def test_a_captured_weight_of_the_surrogate_gets_its_gradient():
    weight, x = vector(2.0, 3.0), vector(1.0, 4.0)
    f = gs.gradient_of(lambda x: x * weight)(torch.round)
    grad_x, grad_w = torch.autograd.grad(f(x).sum(), (x, weight))
    assert_close(grad_x, weight.detach())
    assert_close(grad_w, x.detach())


def test_several_outputs():
    f = gs.gradient_of(lambda x: (2 * x, 3 * x, x))(lambda x: (x.round(), x.floor(), x.argmax().expand(2)))
    x = vector()
    first, second_one, index = f(x)
    (first + 10 * second_one).sum().backward()
    assert_close(x.grad, torch.full_like(x, 32))
    assert not index.requires_grad


def test_dicts_are_matched_by_key_or_refused():
    x = vector()
    f = gs.gradient_of(lambda x: {"a": 2 * x, "b": 3 * x})(lambda x: {"a": x.round(), "b": x.floor()})
    assert_close(gradient(lambda x: f(x)["a"], x), torch.full_like(x, 2))
    assert_close(gradient(lambda x: f(x)["b"], x), torch.full_like(x, 3))
    swapped = gs.gradient_of(lambda x: {"b": 3 * x, "a": 2 * x})(lambda x: {"a": x.round(), "b": x.floor()})
    with pytest.raises(gs.GradientError, match="built alike"):
        swapped(x)


def test_straight_through_of_a_builtin():
    f = gs.straight_through(torch.round)
    x = vector(0.44, 1.66)
    assert_close(f(x, decimals=1).detach(), torch.tensor([0.4, 1.7], dtype=x.dtype))
    assert_close(gradient(lambda x: f(x, decimals=1), x), torch.ones_like(x))
    assert_close(gradient(lambda x: f(input=x), x), torch.ones_like(x))


def test_straight_through_of_straight_through():
    inner = gs.gradient_of(lambda x: 5 * x)(torch.round)
    x = vector()
    assert_close(gradient(gs.straight_through(inner), x), torch.ones_like(x))
    assert_close(gradient(gs.gradient_of(lambda x: 7 * x)(inner), x), torch.full_like(x, 7))


def test_a_method():
    class Quantiser:
        step = 0.5

        @gs.gradient_of(lambda self, x: 3 * x * self.step)
        def quantise(self, x):
            return torch.round(x / self.step) * self.step

    x = vector(0.6, 1.6)
    assert Quantiser().quantise(x).tolist() == [0.5, 1.5]
    assert_close(gradient(Quantiser().quantise, x), torch.full_like(x, 1.5))


def test_the_surrogate_must_not_write_to_its_argument():
    f = gs.gradient_of(lambda x: x.mul_(2))(lambda x: x + 1)
    with pytest.raises(gs.GradsmithError, match="in place"):
        f(vector() * 1)


@pytest.mark.parametrize(
    ("surrogate", "message"),
    [
        (lambda x: x.sum(), r"shape \[\] where .* shape \[2\]"),
        (lambda x: x.float(), "dtype torch.float32 where .* dtype torch.float64"),
        (lambda x: (x, x), r"\(tensor, tensor\) where clone returns tensor"),
        (lambda x: None, "None where clone returns tensor"),
    ],
)
def test_a_surrogate_built_otherwise_is_refused(surrogate, message):
    with pytest.raises(gs.GradientError, match=message):
        gs.gradient_of(surrogate)(torch.clone)(vector())


def test_a_surrogate_that_asks_for_what_is_not_there():
    with pytest.raises(gs.DeclarationError, match=r"'y', 'z'.*'x'"):
        gs.gradient_of(lambda x, y, z: x)(lambda x: x)


def test_a_result_that_can_have_no_gradient_is_refused():
    rounded = gs.straight_through(lambda x: x.round().int())
    with pytest.raises(gs.GradientError, match=r"dtype torch.float64 where .* has dtype torch.int32"):
        rounded(vector())
