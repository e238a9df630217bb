"""Declared functions pickle, copy and travel to another process like the functions they are."""

import copy
import multiprocessing
import pickle

import pytest
import torch
from torch.testing import assert_close

import gradsmith as gs
from tests.declare.helpers import gradient, vector


@gs.custom_gradient
def scale(x, factor=2.0):
    """Multiply."""
    return x * factor


@scale.backward
def _(grad, factor):
    return 5 * factor * grad


@gs.gradient_of(torch.tanh)
def sign(x):
    return torch.sign(x)


def surrogate(x):
    return 7 * x


def forward(x):
    return torch.round(x)


undecorated = gs.gradient_of(surrogate)(forward)
round_ste = gs.straight_through(torch.round)


class Layer(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))

    def forward(self, x):
        return self.function(self.weight * x)

    @gs.custom_gradient
    def method(self, x):
        return 1 * x

    method.backward(lambda grad: 3 * grad)


FUNCTIONS = [scale, sign, undecorated, round_ste]
every_function = pytest.mark.parametrize("function", FUNCTIONS, ids=["scale", "sign", "undecorated", "round_ste"])
every_protocol = pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))


@every_protocol
@every_function
def test_a_function_comes_back(function, protocol):
    x = vector(0.6, 1.6)
    loaded = pickle.loads(pickle.dumps(function, protocol))
    assert torch.equal(loaded(x), function(x))
    assert torch.equal(gradient(loaded, x), gradient(function, x))
    assert type(loaded).__name__ == type(function).__name__


def test_what_a_module_holds_by_name_is_the_same_object():
    assert pickle.loads(pickle.dumps(scale)) is scale
    assert pickle.loads(pickle.dumps(Layer.method)) is Layer.method


@every_function
def test_a_module_with_one(function):
    layer = Layer(function)
    x = vector(0.6, 1.6).detach()
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other.weight is not layer.weight
        other(x).sum().backward()
        layer.weight.grad = None
        layer(x).sum().backward()
        assert torch.equal(other.weight.grad, layer.weight.grad)


def test_a_bound_method():
    loaded = pickle.loads(pickle.dumps(Layer(scale).method))
    assert_close(gradient(loaded, vector()), torch.full((2,), 3.0, dtype=torch.float64))


@every_function
def test_a_copy_is_the_same(function):
    assert copy.copy(function) is function
    assert copy.deepcopy({"f": function})["f"] is function


def test_what_cannot_be_found_says_so():
    local = gs.custom_gradient(lambda x: x)
    with pytest.raises((pickle.PicklingError, AttributeError), match=r"local|lambda"):
        pickle.dumps(local)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_another_process():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        value, slope = pool.apply(value_and_gradient, (round_ste, [0.6, 1.6]))
    assert value == [1.0, 2.0]
    assert slope == [1.0, 1.0]


def value_and_gradient(function, values):
    x = vector(*values)
    return function(x).tolist(), gradient(function, x).tolist()


def test_a_module_with_state_is_copied_with_its_copy():
    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("step", torch.tensor(0.5))

        def forward(self, x):
            return torch.round(x / self.step) * self.step

    quantise = gs.straight_through(Halves())
    other = copy.deepcopy(quantise)
    quantise.__wrapped__.step.fill_(1.0)
    x = torch.tensor([0.6, 1.4], requires_grad=True)
    assert quantise(x).tolist() == [1.0, 1.0]
    assert other(x).tolist() == [0.5, 1.5]
    other(x).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_a_module_whose_weights_come_to_require_grad_is_refused():
    layer = torch.nn.Linear(2, 2).requires_grad_(False)
    through = gs.straight_through(layer)
    x = torch.ones(1, 2, requires_grad=True)
    through(x)
    layer.requires_grad_(True)
    with pytest.raises(gs.DeclarationError, match="weight"):
        through(x)
