"""What an author gets wrong is refused where it is declared or at the first call, naming the parameter."""

import pytest
import torch

import gradsmith as gs
from tests.declare.helpers import declared, vector

identity = lambda x: x  # noqa: E731


def product(backward):
    """A function of two tensors and an integer one."""
    f = gs.custom_gradient(lambda a, b, index: a * b)
    f.backward(backward)
    return f


def with_keep(keep, forward, backward=lambda grad: grad):
    return declared(backward, forward, keep=keep)


# At the declaration ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declare", "message"),
    [
        (lambda: declared(lambda grad, y: grad), "asks for 'y', which is not known.*'x', 'output'"),
        (lambda: declared(lambda grad, m: grad, keep=["mask"]), "asks for 'm'.*'x', 'output', 'mask'"),
        (lambda: declared(lambda: None), "takes nothing; its first parameter is the incoming gradient"),
        (lambda: declared(lambda *, grad: grad), "first parameter is the incoming gradient"),
        (lambda: declared(lambda *grads: grads[0]), r"has the parameter \*grads"),
        (lambda: declared(lambda grad, **rest: grad), r"has the parameter \*\*rest"),
        (lambda: with_keep(["x"], identity), "uses the name 'x' twice"),
        (lambda: with_keep(["output"], identity), "uses the name 'output' twice"),
        (lambda: with_keep(["m", "m"], identity), "uses the name 'm' twice"),
        (lambda: with_keep("mask", identity), r"keep is 'mask'; .*keep=\['mask'\]"),
        (lambda: gs.custom_gradient(lambda output: output).backward(identity), "uses the name 'output' twice"),
        (lambda: gs.custom_gradient(3), "custom_gradient expects a function, not 3"),
        (lambda: gs.custom_gradient(identity).backward(3), "backward expects a function, not 3"),
        (lambda: gs.gradient_of(None), "gradient_of expects a function, not None"),
        (lambda: gs.gradient_of(identity)(None), "gradient_of expects a function, not None"),
        (lambda: gs.straight_through("round"), "straight_through expects a function, not 'round'"),
        (lambda: gs.custom_gradient(staticmethod(identity)), "name = staticmethod\\(function\\)"),
        (lambda: gs.custom_gradient(classmethod(identity)), "name = classmethod\\(function\\)"),
    ],
)
def test_at_the_declaration(declare, message):
    with pytest.raises(gs.DeclarationError, match=message):
        declare()


def test_a_second_backward():
    f = declared(identity)
    with pytest.raises(gs.DeclarationError, match="function already has a backward"):
        f.backward(identity)


# At the first call ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [lambda f, x: f(x), lambda f, x: f(x.detach()), torch.no_grad()(lambda f, x: f(x))])
def test_no_backward_yet(call):
    with pytest.raises(gs.DeclarationError, match=r"has no backward yet; declare one with @.*\.backward"):
        call(gs.custom_gradient(identity), vector())


@pytest.mark.parametrize(
    ("keep", "forward", "message"),
    [
        (["m"], lambda x: 2 * x, "kept nothing, but its declaration announces 'm'"),
        (["m"], lambda x: gs.keep(2 * x, n=x), "kept 'n', but its declaration announces 'm'"),
        (["m"], lambda x: gs.keep(2 * x, m=x, n=x), r"kept 'm', 'n'.*keep=\['m', 'n'\]"),
        ([], lambda x: gs.keep(2 * x, m=x), r"kept 'm', but its declaration announces nothing.*keep=\['m'\]"),
        ([], lambda x: None, "returned None, which holds no tensor"),
        ([], lambda x: 3.0, "returned 3.0, which holds no tensor"),
        ([], lambda x: {"a": 1}, "holds no tensor"),
        ([], lambda x: x.add_(1), "modified its argument 'x' in place"),
        ([], lambda x: x[:1].zero_() + x, "modified its argument 'x' in place"),
    ],
)
def test_at_the_first_call(keep, forward, message):
    with pytest.raises(gs.DeclarationError, match=message):
        with_keep(keep, forward)(vector())


def test_an_argument_modified_in_place_names_its_place():
    f = gs.custom_gradient(lambda d: d["state"].add_(1))
    f.backward(identity)
    with pytest.raises(gs.DeclarationError, match=r"modified its argument .*d\['state'\]"):
        f({"state": vector() * 1})


def test_a_failed_first_call_is_checked_again():
    f = declared(identity, lambda x: x.add_(1))
    for _ in range(2):
        with pytest.raises(gs.DeclarationError, match="in place"):
            f(vector())


# When the backward runs -----------------------------------------------------------------------------------------

ONE_INPUT = [
    (lambda g: g.sum(), r"for 'x' has shape \[\], expected \[2\]; sum over what was broadcast"),
    (lambda g: g[:, None], r"for 'x' has shape \[2, 1\], expected \[2\]"),
    (lambda g: g.expand(3, 2), r"for 'x' has shape \[3, 2\], expected \[2\]"),
    (lambda g: g.float(), r"for 'x' has dtype torch.float32, expected torch.float64; convert it with \.to\(x\.dtype\)"),
    (lambda g: g * 1j, "for 'x' has dtype torch.complex128, expected torch.float64"),
    (lambda g: g.long(), "for 'x' has dtype torch.int64"),
    (lambda g: g.to("meta"), "for 'x' is on meta, expected cpu; move it there"),
    (lambda g: None, "returns None; return the gradient of 'x'"),
    (lambda g: 1.0, r"for 'x' is a float, expected a tensor of shape \[2\]"),
    (lambda g: (g,), "for 'x' is a tuple of 1"),
    (lambda g: [g, g], "for 'x' is a list of 2"),
    (lambda g: {}, "no gradient for 'x'"),
    (lambda g: {"y": g}, "'y', which is no parameter of function"),
    (lambda g: {"x": g, "y": None}, "'y', which is no parameter of function"),
]

TWO_INPUTS = [
    (lambda g: g, r"returns a tensor of shape \[2\]; .* return a dict .*{'a': \.\.\., 'b': \.\.\.}"),
    (lambda g: None, "returns None; .*{'a'"),
    (lambda g: (g, g), "returns a tuple of 2; .*{'a'"),
    (lambda g: {"a": g}, "no gradient for 'b'"),
    (lambda g: {"b": g}, "no gradient for 'a'"),
    (lambda g: {"a": g, "b": g, "index": g}, "'index', which has none"),
    (lambda g: {"a": g, "b": g, "c": None}, "'c', which is no parameter"),
    (lambda g: {"a": g, "b": (g,)}, "for 'b' is a tuple of 1"),
    (lambda g: {"a": g, "b": g[:1]}, r"for 'b' has shape \[1\], expected \[2\]"),
]


def plain(tensors):
    return [t.detach() for t in tensors]


def eager(f, *inputs, rest=()):
    f(*inputs, *rest).sum().backward()


def functional(f, *inputs, rest=()):
    torch.func.grad(lambda *inputs: f(*inputs, *rest).sum(), tuple(range(len(inputs))))(*plain(inputs))


def batched(f, *inputs, rest=()):
    gradient = torch.func.grad(lambda *inputs: f(*inputs, *rest).sum(), tuple(range(len(inputs))))
    torch.func.vmap(gradient)(*[t.expand(3, *t.shape) for t in plain(inputs)])


def forward_mode(f, *inputs, rest=()):
    torch.func.jvp(lambda *inputs: f(*inputs, *rest), tuple(plain(inputs)), tuple(plain(inputs)))


every_run = pytest.mark.parametrize("run", [eager, functional, batched, forward_mode])


@every_run
@pytest.mark.parametrize(("backward", "message"), ONE_INPUT)
def test_one_input(backward, message, run):
    with pytest.raises(gs.GradientError, match=message):
        run(declared(backward), vector())


@every_run
@pytest.mark.parametrize(("backward", "message"), TWO_INPUTS)
def test_two_inputs(backward, message, run):
    with pytest.raises(gs.GradientError, match=message):
        run(product(backward), vector(), vector(), rest=(torch.arange(2),))


def test_the_only_tensor_may_be_an_integer():
    f = product(lambda g: {"a": 2 * g, "index": None})
    x = vector()
    f(x, 3.0, torch.arange(2)).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def add_in_place(grad):
    grad += 1
    return grad


IN_PLACE = {
    "method": lambda grad: grad.mul_(2),
    "operator": add_in_place,
    "a view": lambda grad: grad.view(-1)[0].zero_() + grad,
    "out=": lambda grad: torch.mul(grad, 2, out=grad),
    "a detached alias": lambda grad: grad.detach().mul_(2),
}
every_in_place = pytest.mark.parametrize("backward", IN_PLACE.values(), ids=IN_PLACE.keys())


@every_in_place
def test_the_incoming_gradient_modified_in_place(backward):
    f = declared(backward)
    x = vector()
    y = f(x)
    with pytest.raises(gs.GradientError, match="modified the incoming gradient in place"):
        y.backward(torch.ones_like(y))
    with pytest.raises(gs.GradientError, match="modified the incoming gradient in place"):
        torch.func.vjp(f, x.detach())[1](torch.ones_like(x))


@every_in_place
def test_the_incoming_gradient_modified_in_place_under_vmap(backward):
    """Refused, or done on a tensor of its own: what the caller holds stays as it is."""
    x = vector()
    given = torch.eye(2, dtype=x.dtype)
    try:
        torch.autograd.grad(declared(backward)(x), x, given, is_grads_batched=True)
    except RuntimeError:
        return
    assert torch.equal(given, torch.eye(2, dtype=x.dtype))


@pytest.mark.parametrize(
    ("backward", "name"),
    [(lambda grad, x: grad * x.mul_(2), "'x'"), (lambda grad, output: grad * output.add_(1), "'output'|output")],
)
def test_a_saved_tensor_modified_in_place(backward, name):
    x = vector()
    with pytest.raises(gs.GradientError, match=f"modified {name}.* in place"):
        declared(backward)(x).sum().backward()


# Nonlinear backwards --------------------------------------------------------------------------------------------

NONLINEAR = {
    "clamp": lambda grad: grad.clamp(-1, 1),
    "clamp far out": lambda grad: grad.clamp(-1e3, 1e3),
    "clamp close by": lambda grad: grad.clamp(-1e-3, 1e-3),
    "normalise": lambda grad: grad / grad.norm(),
    "sign": lambda grad: grad.sign(),
    "square": lambda grad: grad**2,
    "guided backpropagation": lambda grad: grad.clamp(min=0),
    "leaky": lambda grad: torch.maximum(grad, 0.2 * grad),
    "abs": lambda grad: grad.abs(),
    "shift": lambda grad: grad + 1,
}


@pytest.mark.parametrize("linear", [True, False])
@pytest.mark.parametrize("backward", NONLINEAR.values(), ids=NONLINEAR.keys())
def test_a_nonlinear_backward_has_no_forward_mode(backward, linear):
    f = declared(backward, lambda x: 1 * x, linear=linear)
    x, incoming = vector(), torch.tensor([5.0, -0.25], dtype=torch.float64)
    (found,) = torch.autograd.grad(f(x), x, incoming)
    assert found.tolist() == backward(incoming).tolist()
    assert torch.equal(torch.func.vjp(f, x.detach())[1](incoming)[0], backward(incoming))
    with pytest.raises(gs.GradientError, match=r"no forward mode.*not linear"):
        torch.func.jvp(f, (x.detach(),), (incoming,))


def test_linear_for_some_inputs_only():
    f = declared(lambda grad, x: torch.where(x > 0, grad, grad**2), lambda x: 1 * x)
    ones = torch.ones(2, dtype=torch.float64)
    torch.func.jvp(f, (ones,), (ones,))
    with pytest.raises(gs.GradientError, match="not linear"):
        torch.func.jvp(f, (-ones,), (ones,))


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e30, float("inf"), float("nan")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_a_linear_backward_is_taken_for_one(value, dtype):
    f = declared(lambda grad, x: grad * x.conj() / 7, lambda x: 1 * x)
    x = torch.full((3,), value).to(dtype)
    torch.func.jvp(f, (x,), (torch.ones_like(x),))


def test_a_gradient_on_another_device():
    """(`meta` is the other device that every machine has.)"""
    f = declared(lambda grad: grad.to("meta"))
    with pytest.raises(gs.GradientError, match=r"for 'x' is on meta, expected cpu"):
        f(vector()).sum().backward()
