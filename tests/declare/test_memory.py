"""Nothing outlives its use, and only what is asked for is saved."""

import gc
import weakref

import pytest
import torch

import gradsmith as gs
from tests.declare.helpers import declared, vector


@pytest.fixture(autouse=True)
def without_gc():
    """What is only in a reference cycle stays alive."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@gs.custom_gradient(keep=["triple"])
def everything(d, n=2):
    triple = 3 * d["a"]
    return gs.keep({"out": triple * d["a"], "index": torch.arange(2)}, triple=triple)


@everything.backward
def _(grads, triple, output, d):
    return {"a": 2 * triple * grads["out"] + 0 * output["out"]}


ste = gs.straight_through(torch.round)


def backward(f):
    x = vector()
    y = f(x)
    y.sum().backward()
    return x, y, x.grad


def never_differentiated(f):
    x = vector()
    return x, f(x)


def twice(f):
    x = vector()
    y = f(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum() + (0 * x).sum(), x)
    return x, y, first, second


def retained(f):
    x = vector()
    y = f(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x, y


def functional(f):
    x = vector().detach()
    total = lambda x: f(x).sum()  # noqa: E731
    return x, torch.func.grad(total)(x), torch.func.hessian(total)(x), torch.func.vmap(torch.func.grad(f))(x)


def forward_mode(f):
    x = vector().detach()
    return x, *torch.func.jvp(f, (x,), (x,))


@pytest.mark.parametrize("use", [backward, never_differentiated, twice, retained, functional, forward_mode])
@pytest.mark.parametrize("f", [lambda x: everything({"a": x})["out"], ste], ids=["everything", "straight_through"])
def test_nothing_stays_alive(f, use):
    references = [weakref.ref(tensor) for tensor in use(f)]
    assert [r() for r in references] == [None] * len(references)


def failing(error):
    def fail(grad):
        raise error

    return fail


@pytest.mark.parametrize(
    "f",
    [declared(lambda grad: 1 / 0), declared(lambda grad: grad[:1]), declared(lambda grad: grad.mul_(2))],
    ids=["author's error", "wrong shape", "in place"],
)
def test_nothing_stays_alive_after_an_error(f):
    def attempt():
        x = vector()
        y = f(x)
        try:
            y.backward(torch.ones_like(y))
        except (ZeroDivisionError, gs.GradientError):
            return weakref.ref(x), weakref.ref(y)
        raise AssertionError("no error")

    assert [r() for r in attempt()] == [None, None]


def test_a_use_leaves_no_garbage():
    for f in (lambda x: everything({"a": x})["out"], ste):
        backward(f)
        gc.collect()
        backward(f)
        assert gc.collect() == 0


def saved_by(f, *inputs):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        output = f(*inputs)
    del output
    return saved


def keeping_two(x):
    return gs.keep(2 * x, one=x + 1, other=torch.cat([x, x]))


@pytest.mark.parametrize(
    ("f", "shapes"),
    [
        (declared(lambda grad: grad), []),
        (declared(lambda grad, x: grad * x), [(2,)]),
        (declared(lambda grad, output: grad * output), [(2,)]),
        (declared(lambda grad, x, output: grad * output * x), [(2,), (2,)]),
        (declared(lambda grad, other: grad * other[:2], keeping_two, keep=["one", "other"]), [(4,)]),
        (declared(lambda grad, other, one: grad * other[:2] * one, keeping_two, keep=["one", "other"]), [(4,), (2,)]),
        (ste, []),
    ],
    ids=["nothing", "input", "output", "both", "one intermediate", "both intermediates", "straight_through"],
)
def test_only_what_is_asked_for_is_saved(f, shapes):
    assert [tuple(t.shape) for t in saved_by(f, vector())] == shapes


def test_a_saved_input_is_a_reference():
    x = torch.ones(4, 5, requires_grad=True)
    (saved,) = saved_by(declared(lambda grad, x: grad * x), x)
    assert saved.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


def test_nothing_is_saved_without_a_gradient():
    f = declared(lambda grad, x, output: grad * x)
    assert saved_by(f, vector().detach()) == []
    with torch.no_grad():
        assert saved_by(f, vector()) == []


def test_what_is_not_asked_for_may_be_freed():
    f = declared(lambda grad: 2 * grad, lambda x: x * x)

    def run():
        x = vector()
        between = x * 1
        y = f(between)
        return x, y, weakref.ref(between)

    x, y, between = run()
    assert between() is None
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
