"""Derivatives of the declared gradient: right, or refused; never a silent zero."""

import numpy as np
import pytest
import torch
import torch.autograd.forward_ad as fwd
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap
from torch.testing import assert_close

import gradsmith as gs
from tests.declare.helpers import ONES, declared, second, vector


def total(f):
    return lambda x: f(x).sum()


def tracked_incoming(f, x):
    """The incoming gradient needs a gradient itself."""
    return second(f, x, weight=torch.ones_like(x, requires_grad=True))


def value_or_refusal(compute, message):
    """The value, or None where it is refused in these words."""
    try:
        value = compute()
    except gs.GradientError as error:
        if message not in str(error):
            raise
        return None
    assert value is not None, "neither a value nor a refusal"
    return value


def forward_over_reverse(f, x):
    with fwd.dual_level():
        dual = fwd.make_dual(x, ONES)
        (first,) = torch.autograd.grad(f(dual).sum(), dual, create_graph=True)
        return fwd.unpack_dual(first).tangent


# Every way to a second derivative; each gives the diagonal of the Hessian of an elementwise function.
WAYS = {
    "create_graph": second,
    "create_graph, tracked incoming": tracked_incoming,
    "grad of grad": lambda f, x: grad(total(grad(total(f))))(x.detach()),
    "vmap of grad of grad": lambda f, x: vmap(grad(grad(f)))(x.detach()),
    "grad over vmap of grad": lambda f, x: grad(total(vmap(grad(f))))(x.detach()),
    "jacrev of jacrev": lambda f, x: jacrev(jacrev(total(f)))(x.detach()).diagonal(),
    "hessian": lambda f, x: hessian(total(f))(x.detach()).diagonal(),
    "jacfwd of grad": lambda f, x: jacfwd(grad(total(f)))(x.detach()).diagonal(),
    "jvp of grad": lambda f, x: jvp(grad(total(f)), (x.detach(),), (ONES,))[1],
    "grad of jvp": lambda f, x: grad(lambda x: jvp(f, (x,), (ONES,))[1].sum())(x.detach()),
    "jvp of jvp": lambda f, x: jvp(lambda x: jvp(f, (x,), (ONES,))[1], (x.detach(),), (ONES,))[1],
    "jacfwd of jacfwd": lambda f, x: jacfwd(jacfwd(total(f)))(x.detach()).diagonal(),
    "forward_ad over reverse": forward_over_reverse,
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())

inner_ste = gs.straight_through(torch.round)
inner_cube = declared(lambda grad, x: 3 * x * x * grad)


class _Square(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return 2 * ctx.saved_tensors[0] * grad

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * ctx.saved_tensors[0] * tangent


def through_vjp(grad, x):
    return torch.func.vjp(lambda x: x**3, x)[1](grad)[0]


# Backwards that all mean 5 x^4, the derivative of no cube: what counts is what was declared. That goes for `output`
# too: inside a backward its derivative is the declared one, 5 x^4.
RIGHT = {
    "input": (lambda grad, x: 5 * x**4 * grad, lambda x: 20 * x**3),
    "output": (lambda grad, x, output: 5 * x * output * grad, lambda x: 5 * x**3 + 25 * x**5),
    "output alone": (lambda grad, output: 5 * output ** (4 / 3) * grad, lambda x: 100 / 3 * x**5),
    "a declared function inside": (lambda grad, x: 5 * x * inner_cube(x) * grad, lambda x: 20 * x**3),
    "a straight-through inside": (
        lambda grad, x: (5 * x**4 + inner_ste(x) - x.round()) * grad,
        lambda x: 20 * x**3 + 1,
    ),
    "torch.func inside": (lambda grad, x: 5 / 3 * x**2 * through_vjp(grad, x), lambda x: 20 * x**3),
    "masks": (lambda grad, x: 5 * x**4 * (x > 0) * grad * torch.ones_like(x), lambda x: 20 * x**3),
}


@every_way
@pytest.mark.parametrize(("backward", "expected"), RIGHT.values(), ids=RIGHT.keys())
def test_right(backward, expected, way):
    x = vector(0.5, 1.5)
    assert_close(way(declared(backward), x).detach(), expected(x.detach()))


@every_way
@pytest.mark.parametrize("asks_for_x", [False, True])
def test_right_through_an_intermediate(asks_for_x, way):
    forward = lambda x: gs.keep(x**3, fourth=x**4)  # noqa: E731
    if asks_for_x:
        f = declared(lambda grad, fourth, x: 5 * fourth * grad, forward, keep=["fourth"])
        x = vector(0.5, 1.5)
        assert_close(way(f, x).detach(), 20 * x.detach() ** 3)
    else:  # the derivative of the intermediate needs x, which nobody asked to save: right or refused
        f = declared(lambda grad, fourth: 5 * fourth * grad, forward, keep=["fourth"])
        x = vector(0.5, 1.5)
        found = value_or_refusal(lambda: way(f, x), "ask for x")
        if found is not None:
            assert_close(found.detach(), 20 * x.detach() ** 3)


def no_grad(grad, x):
    with torch.no_grad():
        return 5 * x**4 * grad


def no_grad_for_a_factor(grad, x):
    with torch.no_grad():
        factor = torch.pow(input=x, exponent=3)
    return 5 * x * factor * grad


def no_grad_in_place(grad, x):
    result = 5 * x * grad
    with torch.no_grad():
        result.mul_(x**3)
    return result


def inference_mode_for_a_factor(grad, x):
    with torch.inference_mode():
        factor = x**3
    return 5 * x * factor.clone() * grad


@torch.no_grad()
def _fourth(x):
    return x**4


def derivative_inside(grad, x):
    with torch.enable_grad():
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(leaf**5, leaf, grad)[0]


def written_by_index(grad, x):
    copy = torch.empty_like(x)
    copy[...] = x.detach()
    return 5 * copy**4 * grad


def written_through_a_view(grad, x):
    copy = torch.zeros_like(x)
    with torch.no_grad():
        copy.view(-1).add_(x.detach())
    return 5 * copy**4 * grad


def vjp_of_detached(grad, x):
    return torch.func.vjp(lambda x: x**5, x.detach())[1](grad)[0]


def vmap_of_detached(grad, x):
    return torch.func.vmap(lambda v: 5 * v**4)(x.detach().reshape(-1)).reshape(x.shape) * grad


def from_items(x):
    return torch.tensor([v.item() for v in x.reshape(-1)], dtype=x.dtype).reshape(x.shape)


def from_floats(x):
    return torch.tensor([float(v) for v in x.reshape(-1)], dtype=x.dtype).reshape(x.shape)


# The same gradient by a path that autograd cannot follow.
def written_through_data(x):
    made = torch.empty_like(x)
    made.data.copy_(x)
    return made


ESCAPES = {
    "numpy": lambda grad, x: torch.as_tensor(5 * x.detach().numpy() ** 4 * grad.detach().numpy()),
    "numpy for a factor": lambda grad, x: torch.as_tensor(5 * np.power(x.detach().numpy(), 4)) * grad,
    "detach": lambda grad, x: 5 * x.detach() ** 4 * grad,
    "detach for a factor": lambda grad, x: 5 * x.detach() ** 3 * x * grad,
    "detach the incoming": lambda grad, x: 5 * x**4 * grad.detach(),
    "data": lambda grad, x: 5 * x.data**4 * grad,
    "data written": lambda grad, x: 5 * written_through_data(x) ** 4 * grad,
    "detach_": lambda grad, x: 5 * x.clone().detach_() ** 4 * grad,
    "detach_ for a factor": lambda grad, x: 5 * x**3 * x.clone().detach_() * grad,
    "item": lambda grad, x: 5 * from_items(x) ** 4 * grad,
    "float": lambda grad, x: 5 * from_floats(x) ** 4 * grad,
    "tolist": lambda grad, x: 5 * torch.tensor(x.tolist(), dtype=x.dtype) ** 4 * grad,
    "torch.tensor": lambda grad, x: 5 * x.new_tensor(x) ** 4 * grad,
    "no_grad": no_grad,
    "no_grad for a factor": no_grad_for_a_factor,
    "no_grad in place": no_grad_in_place,
    "no_grad helper": lambda grad, x: 5 * _fourth(x) * grad,
    "inference_mode": inference_mode_for_a_factor,
    "autograd.grad": derivative_inside,
    "written by index": written_by_index,
    "written through a view": written_through_a_view,
    "vjp of a detached": vjp_of_detached,
    "vmap of a detached": vmap_of_detached,
    "requires_grad_": lambda grad, x: 5 * x.detach().requires_grad_() ** 4 * grad,
    "dlpack": lambda grad, x: 5 * torch.from_dlpack(x.detach()) ** 4 * grad,
}
every_escape = pytest.mark.parametrize("backward", ESCAPES.values(), ids=ESCAPES.keys())


@every_escape
@pytest.mark.filterwarnings("ignore:To copy construct", "ignore:Converting a tensor with requires_grad")
def test_the_first_derivative_survives_an_escape(backward):
    f = declared(backward)
    x = vector(0.5, 1.5)
    expected = 5 * x.detach() ** 4
    for create_graph in (False, True):
        (found,) = torch.autograd.grad(f(x).sum(), x, create_graph=create_graph)
        assert_close(found.detach(), expected)
    assert_close(grad(total(f))(x.detach()), expected)
    assert_close(vmap(grad(f))(x.detach()), expected)


def test_an_escape_with_one_of_two_gradients_missing():
    @gs.custom_gradient
    def f(a, b):
        return a * b

    @f.backward
    def _(grad, b):
        return {"a": torch.as_tensor(5 * grad.detach().numpy() * b.detach().numpy()), "b": None}

    a, b = vector().detach(), vector(2.0, 3.0).detach()
    grad_a, grad_b = vmap(grad(f, (0, 1)))(a, b)
    assert_close(grad_a, 5 * b)
    assert_close(grad_b, torch.zeros_like(b))


@every_way
@every_escape
@pytest.mark.filterwarnings("ignore:To copy construct", "ignore:Converting a tensor with requires_grad")
def test_the_second_is_refused_after_an_escape(backward, way):
    x = vector(0.5, 1.5)
    found = value_or_refusal(lambda: way(declared(backward), x), "gradient of function cannot be differentiated")
    if found is not None:  # the path could be followed after all
        assert_close(found.detach(), 20 * x.detach() ** 3)


@pytest.mark.parametrize("backward", [ESCAPES["detach"], ESCAPES["numpy"]], ids=["detach", "numpy"])
@pytest.mark.parametrize("way", ["create_graph", "create_graph, tracked incoming", "grad of grad", "hessian"])
def test_an_escape_names_what_to_do(backward, way):
    with pytest.raises(gs.GradientError, match=r"function .*differentiable torch operations"):
        WAYS[way](declared(backward), vector(0.5, 1.5))


@pytest.mark.parametrize("backward", [no_grad, no_grad_for_a_factor], ids=["no_grad", "no_grad for a factor"])
def test_forward_mode_is_right_or_refused_after_no_grad(backward):
    x = vector(0.5, 1.5).detach()
    found = value_or_refusal(lambda: jvp(declared(backward), (x,), (ONES,)), "cannot be differentiated")
    if found is not None:
        assert_close(found[1], 5 * x**4)


def test_a_penalty_on_one_of_two_inputs_is_refused_after_an_escape():
    @gs.custom_gradient
    def f(a, b):
        return a * b

    @f.backward
    def _(grad, a, b):
        return {"a": grad * b.detach(), "b": grad * a}

    a, b = vector(), vector(2.0, 3.0)
    (grad_a,) = torch.autograd.grad(f(a, b).sum(), a, create_graph=True)
    with pytest.raises(gs.GradientError, match="detach"):
        torch.autograd.grad((grad_a**2).sum() + (0 * b).sum(), b)


def test_a_declared_gradient_that_is_none_of_a_function():
    """Its own derivative is not symmetric: d grad_a / d b differs from d grad_b / d a."""

    @gs.custom_gradient
    def f(a, b):
        return a * b

    @f.backward
    def _(grad, a, b):
        return {"a": grad * a * b**2, "b": grad * torch.sin(a) * b}

    a, b = vector(0.3, 0.7), vector(1.1, -0.4)
    expected = [[b**2, 2 * a * b], [torch.cos(a) * b, torch.sin(a)]]
    summed = lambda a, b: f(a, b).sum()  # noqa: E731
    for found in (
        hessian(summed, (0, 1))(a.detach(), b.detach()),
        jacrev(grad(summed, (0, 1)), (0, 1))(a.detach(), b.detach()),
        jacfwd(grad(summed, (0, 1)), (0, 1))(a.detach(), b.detach()),
    ):
        for row, expected_row in zip(found, expected, strict=True):
            for block, diagonal in zip(row, expected_row, strict=True):
                assert_close(block, torch.diag(diagonal.detach()))
    incoming, u = torch.tensor([0.9, 2.0]), torch.tensor([0.2, -1.0])
    grads = torch.autograd.grad(f(a, b), (a, b), incoming.double(), create_graph=True)
    found = torch.autograd.grad((u * grads[0] + 3 * grads[1]).sum(), (a, b))
    assert_close(found[0], (incoming * (u * expected[0][0] + 3 * expected[1][0])).detach())
    assert_close(found[1], (incoming * (u * expected[0][1] + 3 * expected[1][1])).detach())


def test_the_output_and_its_gradient_in_one_loss():
    f = declared(lambda grad, fourth, x: 5 * fourth * grad, lambda x: gs.keep(x**3, fourth=x**4), keep=["fourth"])
    x = vector(0.5, 1.5)
    y = f(x)
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(y.sum() + first.sum(), x)
    assert_close(found, (5 * x**4 + 20 * x**3).detach())


def test_third_derivative():
    x = vector(0.5, 1.5)
    f = declared(lambda grad, x: 5 * x**4 * grad)
    y = f(x).sum()
    for _ in range(3):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert_close(y.detach(), 60 * x.detach() ** 2)
    assert_close(vmap(grad(grad(grad(f))))(x.detach()), 60 * x.detach() ** 2)


def test_the_derivative_by_the_incoming_gradient():
    x, weight = vector(0.5, 1.5), vector(2.0, 3.0)
    for backward in (lambda grad, x: 5 * x**4 * grad, lambda grad, x: 5 * x.detach() ** 4 * (grad + 0 * x)):
        (first,) = torch.autograd.grad((declared(backward)(x) * weight).sum(), x, create_graph=True)
        try:
            (found,) = torch.autograd.grad(first.sum(), weight)
        except gs.GradientError:
            continue
        assert_close(found, 5 * x.detach() ** 4)


def test_a_gradient_penalty_trains():
    """d/dw of |d f(w x) / d x|^2 with the declared gradient 5 u^4 of f."""
    f = declared(lambda grad, x: 5 * x**4 * grad)
    w, x = vector(0.8, 1.2), vector(0.5, 1.5)
    (first,) = torch.autograd.grad(f(w * x).sum(), x, create_graph=True)
    (found,) = torch.autograd.grad((first**2).sum(), w)
    assert_close(found, (250 * w**9 * x**8).detach())


# Intermediates that cannot be made again ------------------------------------------------------------------------


def random_mask(x):
    mask = (torch.rand_like(x) > 0.5).to(x.dtype)
    return gs.keep(x * mask, mask=mask)


def random_factor(x):
    factor = torch.rand_like(x) * x
    return gs.keep(factor**2, factor=factor)


def numpy_factor(x):
    return gs.keep(x**5, factor=torch.as_tensor(5 * x.detach().numpy() ** 4))


def test_the_mask_of_the_forward_counts():
    f = declared(lambda grad, mask: grad * mask, random_mask, keep=["mask"])
    x = torch.ones(64, dtype=torch.float64, requires_grad=True)
    y = f(x)
    y.sum().backward()
    assert 0 < y.sum() < 64
    assert torch.equal(y, x.grad)
    value, pull = torch.func.vjp(f, x.detach())
    assert torch.equal(value, pull(torch.ones_like(x))[0])
    value, tangent = jvp(f, (x.detach(),), (x.detach(),))
    assert torch.equal(value, tangent)


def test_numpy_makes_an_intermediate():
    f = declared(lambda grad, factor: grad * factor, numpy_factor, keep=["factor"])
    x = vector(0.5, 1.5)
    for create_graph in (False, True):
        (found,) = torch.autograd.grad(f(x).sum(), x, create_graph=create_graph)
        assert_close(found.detach(), 5 * x.detach() ** 4)
    assert_close(vmap(grad(f))(x.detach()), 5 * x.detach() ** 4)


@every_way
@pytest.mark.parametrize(
    "f",
    [
        declared(lambda grad, factor, x: grad * factor, numpy_factor, keep=["factor"]),
        declared(lambda grad, factor, x: 2 * grad * factor**2 / x, random_factor, keep=["factor"]),
    ],
    ids=["numpy", "random"],
)
def test_such_intermediates_are_not_differentiated(f, way):
    with pytest.raises((gs.GradientError, RuntimeError)) as caught:
        way(f, vector(0.5, 1.5))
    if not isinstance(caught.value, gs.GradientError):  # torch's own refusal of random numbers under vmap
        assert "randomness" in str(caught.value)


def test_a_nan_does_not_switch_the_comparison_off():
    f = declared(lambda grad, factor, x: 2 * grad * factor**2 / x, random_factor, keep=["factor"])
    with pytest.raises(gs.GradientError, match="random"):
        second(f, vector(float("nan"), 1.5))


def test_a_forward_whose_state_changed_is_noticed():
    state = [2.0]
    f = declared(
        lambda grad, factor, x: 2 * grad * factor**2 / x,
        lambda x: gs.keep((state[0] * x) ** 2, factor=state[0] * x),
        keep=["factor"],
    )
    x = vector()
    (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
    state[0] = 3.0
    with pytest.raises(gs.GradientError, match="other intermediates"):
        torch.autograd.grad(first.sum(), x)
