"""Arguments, outputs and gradients that are dicts, lists, tuples, NamedTuples and dataclasses."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
import torch
from torch.nn.utils.rnn import pack_sequence
from torch.testing import assert_close

import gradsmith as gs
from tests.declare.helpers import vector


@dataclass
class State:
    h: torch.Tensor
    c: torch.Tensor | None = None
    steps: int = 3


@dataclass(frozen=True)
class Frozen:
    h: torch.Tensor
    name: str = "a"


@dataclass
class Derived:
    h: torch.Tensor
    double: torch.Tensor = field(init=False)

    def __post_init__(self):
        self.double = self.h * 2


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor | None
    index: torch.Tensor


@gs.custom_gradient
def step(params, *, state=None):
    """Everything nested in everything, with None, text, numbers and integers among the leaves."""
    pair = params["pair"]
    product = params["list"][0] * pair.first
    return {"out": product, "state": State(2 * state.h, steps=7), "index": pair.index + 1, "none": None, 5: (1.5, "x")}


@step.backward
def _(grads, params, state):
    assert grads["none"] is None
    assert grads[5] == (None, None)
    assert grads["state"].steps is None
    assert grads["index"] is None
    out = 0 if grads["out"] is None else grads["out"]
    h = 0 if grads["state"].h is None else grads["state"].h
    x, pair = params["list"][0], params["pair"]
    zero = torch.zeros_like(x)
    return {
        "params": {"list": [zero + 10 * out * pair.first, None], "pair": Pair(zero + 10 * out * x, None, None)},
        "state": State(zero + 3 * h, None, None),
    }


def test_nested():
    x, y, h = vector(1.0, 2.0), vector(3.0, 4.0), vector(5.0, 6.0)
    params = {"list": [x, "text"], "pair": Pair(y, None, torch.tensor([4, 5]))}
    result = step(params, state=State(h))
    assert result["index"].tolist() == [5, 6]
    assert result["none"] is None
    assert result[5] == (1.5, "x")
    assert result["state"].steps == 7
    assert result["state"].c is None
    (result["out"].sum() + result["state"].h.sum()).backward()
    assert_close(x.grad, 10 * y.detach())
    assert_close(y.grad, 10 * x.detach())
    assert_close(h.grad, torch.full_like(h, 3))


def test_outputs_that_are_not_used_are_none_in_their_place():
    x, y, h = vector(1.0, 2.0), vector(3.0, 4.0), vector(5.0, 6.0)
    params = {"list": [x, "text"], "pair": Pair(y, None, torch.tensor([4, 5]))}
    step(params, state=State(h))["state"].h.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert h.grad.tolist() == [3.0, 3.0]


def test_under_transforms():
    x, y, h = (t.detach() for t in (vector(1.0, 2.0), vector(3.0, 4.0), vector(5.0, 6.0)))

    def loss(x, y, h):
        result = step({"list": [x, "text"], "pair": Pair(y, None, torch.tensor([4, 5]))}, state=State(h))
        return (result["out"] ** 2).sum() + result["state"].h.sum()

    grads = torch.func.grad(loss, (0, 1, 2))(x, y, h)
    for found, expected in zip(grads, (20 * x * y**2, 20 * x**2 * y, torch.full_like(h, 3)), strict=True):
        assert_close(found, expected)
    batched = torch.func.vmap(torch.func.grad(loss), (0, None, None))(torch.stack([x, 2 * x]), y, h)
    assert_close(batched, torch.stack([20 * x * y**2, 40 * x * y**2]))
    _, tangent = torch.func.jvp(loss, (x, y, h), (x, y, h))
    assert_close(tangent, (40 * x**2 * y**2).sum() + 3 * h.sum())


def test_a_compiled_pytree():
    torch._dynamo.reset()
    x, y, h = vector(1.0, 2.0), vector(3.0, 4.0), vector(5.0, 6.0)

    def run(x, y, h):
        result = step({"list": [x, "text"], "pair": Pair(y, None, torch.tensor([4, 5]))}, state=State(h))
        return result["out"] + result["state"].h + result[5][0]

    compiled = torch.compile(run, backend="aot_eager", fullgraph=True)
    assert_close(compiled(x, y, h), x * y + 2 * h + 1.5)
    found = torch.autograd.grad(compiled(x, y, h).sum(), (x, y, h))
    for tensor, expected in zip(found, (10 * y, 10 * x, torch.full_like(h, 3)), strict=True):
        assert_close(tensor, expected.detach())


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda t: {"a": t, "b": {}}, lambda v: v["a"]),
        (lambda t: OrderedDict(a=t), lambda v: v["a"]),
        (lambda t: [t, [], ()], lambda v: v[0]),
        (lambda t: (t, None), lambda v: v[0]),
        (lambda t: State(t), lambda v: v.h),
        (lambda t: Frozen(t), lambda v: v.h),
        (lambda t: Pair(t, None, None), lambda v: v.first),
        (lambda t: {0: [{"x": (State(t),)}]}, lambda v: v[0][0]["x"][0].h),
    ],
    ids=["dict", "OrderedDict", "list", "tuple", "dataclass", "frozen", "NamedTuple", "nested"],
)
def test_every_container_goes_in_comes_out_and_carries_a_gradient(wrap, unwrap):
    f = gs.custom_gradient(lambda value: wrap(unwrap(value) * 2))
    f.backward(lambda grads: wrap(5 * unwrap(grads)))
    x = vector()
    given = wrap(x)
    result = f(given)
    assert type(result) is type(given)
    unwrap(result).sum().backward()
    assert_close(x.grad, torch.full_like(x, 5))


def test_keys_may_come_in_another_order():
    f = gs.custom_gradient(lambda d: d["a"] * d["b"])
    f.backward(lambda grad, d: {"b": 2 * grad * d["a"], "a": 3 * grad * d["b"]})
    a, b = vector(1.0, 2.0), vector(3.0, 4.0)
    f({"a": a, "b": b}).sum().backward()
    assert_close(a.grad, 3 * b.detach())
    assert_close(b.grad, 2 * a.detach())


def test_a_list_gradient_may_be_a_tuple():
    f = gs.custom_gradient(lambda *xs: xs[0] * xs[1])
    f.backward(lambda grad, xs: [2 * grad, 3 * grad])
    a, b = vector(), vector()
    f(a, b).sum().backward()
    assert_close(a.grad, torch.full_like(a, 2))
    assert_close(b.grad, torch.full_like(b, 3))


def test_none_stands_for_a_whole_container():
    f = gs.custom_gradient(lambda d, y: d["a"] * y)
    f.backward(lambda grad, d: {"d": None, "y": grad * d["a"]})
    a, y = vector(2.0, 3.0), vector()
    f({"a": a}, y).sum().backward()
    assert a.grad is None
    assert_close(y.grad, a.detach())


def test_fields_set_after_construction_are_kept():
    f = gs.custom_gradient(lambda s: s.h * s.double)
    f.backward(lambda grad, s: State(grad * s.double))
    derived = Derived(vector(1.0, 2.0))
    derived.double = torch.full((2,), 100.0, dtype=torch.float64)
    assert f(derived).tolist() == [100.0, 200.0]


def test_a_packed_sequence():
    f = gs.custom_gradient(lambda packed: packed._replace(data=2 * packed.data))
    f.backward(lambda grads: grads._replace(data=5 * grads.data))
    x = torch.ones(3, 2, requires_grad=True)
    f(pack_sequence([x[:2], x[2:]])).data.sum().backward()
    assert_close(x.grad, torch.full_like(x, 5))


def test_a_hundred_levels_and_a_thousand_leaves():
    deep = x = vector()
    for _ in range(100):
        deep = [deep]
    f = gs.custom_gradient(lambda v: v)
    f.backward(lambda grads: grads)
    y = f(deep)
    for _ in range(100):
        (y,) = y
    (2 * y).sum().backward()
    assert_close(x.grad, torch.full_like(x, 2))
    many = [vector() for _ in range(1000)]
    sum(t.sum() for t in f(many)).backward()
    assert all(t.grad.tolist() == [1.0, 1.0] for t in many)


@pytest.mark.parametrize(
    "container",
    [lambda t: defaultdict(list, a=t), lambda t: {t}, lambda t: torch.max(t, 0)],
    ids=["defaultdict", "set", "torch.return_types"],
)
def test_a_container_that_is_not_known_is_refused(container):
    out = gs.custom_gradient(lambda x: (2 * x, container(x * 1)))
    out.backward(lambda grads: 2 * grads[0])
    with pytest.raises(gs.DeclarationError, match="holds tensors"):
        out(vector())
    given = gs.custom_gradient(lambda x, other: 2 * x)
    given.backward(lambda grad: {"x": 2 * grad, "other": None})
    with pytest.raises(gs.DeclarationError, match="holds tensors"):
        given(vector(), container(vector()))


def test_an_iterator_is_refused():
    f = gs.custom_gradient(lambda x, factors: sum(x * k for k in factors))
    f.backward(lambda grad, factors: grad * sum(factors))
    with pytest.raises(gs.DeclarationError, match="only once"):
        f(vector(), iter([1.0, 2.0]))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda g: {"a": g}, "missing: 'b'"),
        (lambda g: {"d": {"a": g}}, "missing: 'b'"),
        (lambda g: {"d": [g, g, None]}, "list of 3 for d"),
        (lambda g: {"d": {"a": g, "b": [g], "n": None, "index": None}}, r"d\['b'\].* is a list of 1"),
        (lambda g: {"d": {"a": g, "b": g.sum(), "n": None, "index": None}}, r"d\['b'\].* shape \[\], expected \[2\]"),
        (lambda g: {"d": {"a": g, "b": g, "n": g, "index": None}}, r"d\['n'\], which is no tensor"),
        (lambda g: {"d": {"a": g, "b": g, "n": None, "index": g}}, r"d\['index'\], which has none"),
        (lambda g: {"e": None}, "missing: 'a'"),
    ],
)
def test_a_gradient_built_otherwise_names_the_place(returned, message):
    f = gs.custom_gradient(lambda d: d["a"] * d["b"])
    f.backward(returned)
    with pytest.raises(gs.GradientError, match=message):
        f({"a": vector(), "b": vector(), "n": "text", "index": torch.arange(2)}).sum().backward()
