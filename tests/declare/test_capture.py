"""A tensor that takes part in a derivative and is no argument would silently get no gradient: it is refused."""

import functools
import types

import pytest
import torch
import torch.autograd.forward_ad as fwd
from torch.func import grad, jvp, vmap
from torch.testing import assert_close

import gradsmith as gs
from tests.declare.helpers import declared, gradient, vector

GLOBAL = torch.ones(2, dtype=torch.float64, requires_grad=True)
CONSTANT = torch.full((2,), 2.0, dtype=torch.float64)


def times_global(x):
    return x * GLOBAL


def times(weight, x):
    return x * weight


def by_name(weight):
    return lambda x: x * weight


def in_a_list(weight):
    weights = [weight]
    return lambda x: x * weights[0]


def in_a_dict(weight):
    weights = {"w": weight}
    return lambda x: x * weights["w"]


def in_a_generator(weight):
    weights = {"all": [weight]}
    return lambda x: sum(x * w for w in weights["all"])


def in_a_module(weight):
    module = torch.nn.Module()
    module.weight = torch.nn.Parameter(weight.detach().clone(), requires_grad=weight.requires_grad)
    return lambda x: x * module.weight


def in_an_attribute(weight):
    holder = types.SimpleNamespace(weight=weight)
    return lambda x: x * holder.weight


def in_a_helper(weight):
    def helper(x):
        return x * weight

    return lambda x: helper(x)


def in_a_partial(weight):
    return functools.partial(times, weight)


WAYS = [by_name, in_a_list, in_a_dict, in_a_generator, in_a_module, in_an_attribute, in_a_helper, in_a_partial]
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
refused = pytest.raises(gs.DeclarationError, match="no argument")


def functional(f, x):
    return grad(lambda x: f(x).sum())(x.detach())


@every_way
@pytest.mark.parametrize("call", [lambda f, x: f(x), functional], ids=["eager", "functional"])
def test_refused_at_the_first_call(way, call):
    f = gs.custom_gradient(way(vector()))
    f.backward(lambda grad: grad)
    with refused:
        call(f, vector())


@every_way
def test_refused_for_gradient_of(way):
    with refused:
        gs.straight_through(way(vector()))(vector())


@every_way
def test_constants_are_fine(way):
    f = gs.custom_gradient(way(CONSTANT))
    f.backward(lambda grad: 5 * grad)
    x = vector()
    assert f(x).tolist() == (2 * x).tolist()
    assert_close(gradient(f, x), torch.full_like(x, 5))
    assert_close(functional(f, x), torch.full_like(x, 5))
    assert_close(vmap(f)(x.detach().expand(3, 2)), 2 * x.detach().expand(3, 2))


def test_a_global_is_refused_by_name():
    f = gs.custom_gradient(times_global)
    f.backward(lambda grad: grad)
    with pytest.raises(gs.DeclarationError, match="the global 'GLOBAL'"):
        f(vector())


def test_an_attribute_of_the_same_name_as_a_global_is_none():
    holder = types.SimpleNamespace(GLOBAL=CONSTANT)
    f = declared(lambda grad: grad, lambda x: x * holder.GLOBAL)
    assert_close(gradient(f, vector()), torch.ones(2, dtype=torch.float64))


def test_refused_where_the_first_call_records_nothing():
    f = declared(lambda grad: grad, in_an_attribute(vector()))
    with torch.no_grad(), refused:
        f(vector())


@pytest.mark.parametrize(
    "way", [by_name, in_a_helper, in_a_list, in_a_dict, in_a_partial], ids=lambda way: way.__name__
)
def test_frozen_first_and_trained_later(way):
    weight = vector().detach()
    f = gs.custom_gradient(way(weight))
    f.backward(lambda grad: grad)
    f(vector())
    weight.requires_grad_()
    with refused:
        f(vector())


def test_a_module_frozen_first_and_trained_later():
    linear = torch.nn.Linear(2, 2, dtype=torch.float64).requires_grad_(False)
    f = declared(lambda grad: grad, lambda x: linear(x))
    f(vector())
    linear.requires_grad_()
    with pytest.raises(gs.DeclarationError, match="'weight' of 'linear'"):
        f(vector())


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))

    @gs.custom_gradient
    def forward(self, x):
        return x * self.weight

    @forward.backward
    def _(grad, self):
        return grad * self.weight.detach()


def test_each_self_is_looked_at():
    frozen = Layer().requires_grad_(False)
    frozen(vector())
    with refused:
        Layer()(vector())
    frozen(vector())
    frozen.requires_grad_()
    with refused:
        frozen(vector())


def capturing(weight):
    f = gs.custom_gradient(lambda x: x * weight)
    f.backward(lambda grad: grad)
    return f


@pytest.mark.parametrize(
    "transform",
    [
        lambda h, w: grad(lambda w: h(w).sum())(w),
        lambda h, w: jvp(h, (w,), (w,)),
        lambda h, w: grad(lambda w: vmap(lambda v: h(v).sum())(w).sum())(w),
        lambda h, w: grad(lambda w: grad(lambda x: capturing(w)(x).sum())(w.detach()).sum())(w),
    ],
    ids=["grad", "jvp", "grad of vmap", "grad of grad"],
)
def test_captured_from_a_transform(transform):
    with refused:
        transform(lambda w: capturing(w)(torch.ones(2)), torch.ones(2))


def test_captured_with_a_forward_mode_tangent():
    with fwd.dual_level(), refused:
        weight = fwd.make_dual(torch.ones(2), torch.ones(2))
        capturing(weight)(torch.ones(2))


def test_captured_from_vmap():
    """torch could not tell the batch of the weight from that of the argument."""
    with refused:
        vmap(lambda w: capturing(w)(torch.ones(2)))(torch.ones(3, 2))


def test_under_compile():
    x = vector()
    torch._dynamo.reset()
    f = declared(lambda grad: 5 * grad, by_name(CONSTANT))
    compiled = torch.compile(lambda x: f(x) + 1, backend="aot_eager", fullgraph=True)
    assert_close(gradient(compiled, x), torch.full_like(x, 5))
    g = declared(lambda grad: 5 * grad, by_name(vector()))
    with pytest.raises(Exception, match="no argument"):
        torch.compile(lambda x: g(x) + 1, backend="aot_eager", fullgraph=True)(x)


def test_the_backward_may_use_a_constant_and_a_parameter():
    """A second derivative by a tensor that only the backward uses is right."""
    weight, x = vector(2.0, 3.0), vector()
    f = declared(lambda grad, x: grad * x * weight)
    (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    assert_close(torch.autograd.grad(first.sum(), weight)[0], x.detach())
