"""A gradient written by hand: what it is called with, what it returns, and that it is the one that counts."""

import functools
import inspect
import typing

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import gradsmith as gs
from tests.declare.helpers import declared, gradient, vector


def test_the_declared_gradient_replaces_the_true_one():
    x = vector(0.5, 1.5)
    assert_close(gradient(declared(lambda grad: 7 * grad), x), torch.full_like(x, 7))


def test_asked_names_arrive_in_any_order():
    @gs.custom_gradient(keep=["half"])
    def f(x, scale, *, shift=1.0):
        return gs.keep(x * scale + shift, half=x / 2)

    seen = {}

    @f.backward
    def _(grad, half, shift, output, scale, x):
        seen.update(half=half, shift=shift, output=output, scale=scale, x=x)
        return grad

    x = vector(1.0, 2.0)
    f(x, 3.0, shift=4.0).sum().backward()
    assert seen["scale"] == 3.0
    assert seen["shift"] == 4.0
    assert_close(seen["x"].detach(), x.detach())
    assert_close(seen["half"].detach(), x.detach() / 2)
    assert_close(seen["output"].detach(), x.detach() * 3 + 4)


def test_several_inputs_take_a_dict():
    @gs.custom_gradient
    def f(a, b, power=2):
        return a * b**power

    @f.backward
    def _(grad, a, b):
        return {"b": 5 * grad * a, "a": 3 * grad * b}

    a, b = vector(1.0, 2.0), vector(3.0, 4.0)
    grad_a, grad_b = gradient(f, a, b)
    assert_close(grad_a, torch.tensor([9.0, 12.0], dtype=a.dtype))
    assert_close(grad_b, torch.tensor([5.0, 10.0], dtype=a.dtype))


def test_the_same_tensor_twice_gets_the_sum():
    @gs.custom_gradient
    def f(a, b):
        return a * b

    @f.backward
    def _(grad):
        return {"a": 2 * grad, "b": 5 * grad}

    x = vector()
    f(x, x).sum().backward()
    assert_close(x.grad, torch.full_like(x, 7))


def test_one_gradient_for_two_inputs_is_not_shared():
    @gs.custom_gradient
    def f(a, b):
        return a + b

    @f.backward
    def _(grad):
        return {"a": grad, "b": grad}

    a, b = vector(), vector()
    f(a, b).sum().backward()
    a.grad.mul_(10)
    assert_close(b.grad, torch.ones_like(b))


def test_no_gradient_says_none():
    @gs.custom_gradient
    def f(a, b):
        return a * b

    @f.backward
    def _(grad, b):
        return {"a": grad * b, "b": None}

    a, b = vector(), vector(2.0, 3.0)
    f(a, b).sum().backward()
    assert_close(a.grad, b.detach())
    assert b.grad is None


def test_every_kind_of_parameter():
    @gs.custom_gradient
    def f(a, b=None, /, c=2.0, *more, d, e=None, **named):
        return a * c * d * more[0] * named["n"] if b is None else a * b

    @f.backward
    def _(grad, named, e, d, more, c, b, a):
        assert e is None
        if b is not None:
            return {"a": grad * b, "b": grad * a, "d": None, "more": None, "named": None}
        m, n = more[0], named["n"]
        return {
            "a": grad * c * d * m * n,
            "d": grad * a * c * m * n,
            "more": (grad * a * c * d * n,),
            "named": {"n": grad * a * c * d * m},
        }

    a, d, m, n = vector(1.0, 2.0), vector(3.0, 4.0), vector(5.0, 6.0), vector(7.0, 8.0)
    f(a, None, 10.0, m, d=d, n=n).sum().backward()
    product = (a * d * m * n).detach() * 10
    for tensor in (a, d, m, n):
        assert_close(tensor.grad, product / tensor.detach())
    b = vector(9.0, 9.0)
    f(a.detach(), b, d=d.detach(), n=None).sum().backward()
    assert_close(b.grad, a.detach())


def test_a_default_may_be_a_tensor():
    weight = vector(3.0, 4.0)

    @gs.custom_gradient
    def f(x, weight=weight):
        return x * weight

    @f.backward
    def _(grad, x, weight):
        return {"x": grad * weight, "weight": grad * x}

    x = vector(1.0, 2.0)
    f(x).sum().backward()
    assert_close(weight.grad, x.detach())


def test_outputs_not_used_give_none():
    seen = []

    @gs.custom_gradient
    def f(x):
        return 2 * x, 3 * x, x.argmax()

    @f.backward
    def _(grads):
        seen.append([g is None for g in grads])
        return sum(k * g for k, g in zip((2, 3), grads, strict=False) if g is not None)

    x = vector()
    f(x)[1].sum().backward()
    f(x)[0].sum().backward()
    first, second, _ = f(x)
    (first + second).sum().backward()
    assert seen == [[True, False, True], [False, True, True], [False, False, True]]
    assert_close(x.grad, torch.full_like(x, 10))


def test_integer_inputs_and_outputs():
    @gs.custom_gradient
    def f(x, index):
        return x[index], index + 1

    @f.backward
    def _(grads, x, index):
        return torch.zeros_like(x).index_add(0, index, 2 * grads[0])

    x = vector(1.0, 2.0, 3.0)
    picked, shifted = f(x, torch.tensor([0, 0, 2]))
    picked.sum().backward()
    assert x.grad.tolist() == [4.0, 0.0, 2.0]
    assert shifted.tolist() == [1, 1, 3]
    assert not shifted.requires_grad


def test_an_output_that_is_an_input_a_view_or_there_twice():
    @gs.custom_gradient
    def f(x):
        double = 2 * x
        return x, x[:1], double, double

    @f.backward
    def _(grads, x):
        whole, part, once, again = [0 if g is None else g for g in grads]
        total = torch.zeros_like(x) + whole + 2 * once + 2 * again
        total[:1] += part
        return total

    for used, expected in [(0, [1, 1]), (1, [1, 0]), (2, [2, 2]), (3, [2, 2])]:
        x = vector()
        f(x)[used].sum().backward()
        assert x.grad.tolist() == expected
    assert len({id(t) for t in f(x)}) == 4


def test_an_in_place_operation_on_the_output():
    x = vector(1.0, 2.0)
    y = declared(lambda grad, x: 5 * x * grad)(x)
    y.mul_(3).add_(1)
    y.sum().backward()
    assert_close(x.grad, 15 * x.detach())


def test_a_saved_output_that_was_written_to_is_noticed():
    y = declared(lambda grad, output: grad * output, torch.exp)(vector())
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_hooks_and_retained_graphs():
    x = vector(1.0, 2.0)
    y = declared(lambda grad: 2 * grad)(x)
    y.register_hook(lambda grad: 10 * grad)
    y.sum().backward(retain_graph=True)
    y.sum().backward()
    assert_close(x.grad, torch.full_like(x, 40))
    with pytest.raises(RuntimeError):
        declared_twice = declared(lambda grad, x: grad * x)(x).sum()
        declared_twice.backward()
        declared_twice.backward()


def test_options_are_those_of_the_call():
    options = {"scale": 2.0}
    f = gs.custom_gradient(lambda x, options: x * options["scale"])
    f.backward(lambda grad, options: grad * options["scale"])
    x = vector()
    y = f(x, options)
    options["scale"] = 100.0
    y.sum().backward()
    assert_close(x.grad, torch.full_like(x, 2))


@pytest.mark.parametrize("scale", [np.float32(3), np.float64(3), np.int64(3), np.full(2, 3.0), True + 2])
def test_options_of_numpy(scale):
    f = gs.custom_gradient(lambda x, scale: x * torch.as_tensor(scale))
    f.backward(lambda grad, scale: 2 * grad * torch.as_tensor(scale))
    assert_close(gradient(lambda x: f(x, scale), vector()), torch.full((2,), 6.0, dtype=torch.float64))


def _scaled(x, scale):
    return x * scale


class _Scaler:
    def __call__(self, x, scale=3):
        return x * scale


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (functools.partial(_scaled, scale=3), ()),
        (_Scaler(), ()),
        (lambda x, scale: x * scale, (3,)),
        (gs.custom_gradient(_scaled), (3,)),
    ],
    ids=["partial", "object", "lambda", "declared"],
)
def test_what_may_be_declared(function, arguments):
    if isinstance(function, gs.declare.CustomGradient):
        function.backward(lambda grad: 1 * grad)
    f = gs.custom_gradient(function)
    f.backward(lambda grad, scale: 5 * scale * grad)
    assert_close(gradient(lambda x: f(x, *arguments), vector()), torch.full((2,), 15.0, dtype=torch.float64))


def test_a_builtin():
    f = gs.custom_gradient(torch.floor)
    f.backward(lambda grad: 3 * grad)
    x = vector(0.5, 1.5)
    assert f(x).tolist() == [0.0, 1.0]
    assert_close(gradient(f, x), torch.full_like(x, 3))


class _Layer(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    @gs.custom_gradient
    def forward(self, x, shift=0.0):
        return x * self.scale + shift

    @forward.backward
    def _(grad, self):
        return 10 * grad * self.scale

    @staticmethod
    @gs.custom_gradient
    def static(x):
        return x

    static.__func__.backward(lambda grad: 4 * grad)

    @classmethod
    @gs.custom_gradient
    def of_class(cls, x):
        return x

    of_class.__func__.backward(lambda grad, cls: len(cls.__name__) * grad)


def test_methods():
    x = vector()
    assert_close(gradient(_Layer(2.0), x), torch.full_like(x, 20))
    assert_close(gradient(_Layer(3.0).forward, x), torch.full_like(x, 30))
    assert_close(gradient(_Layer.static, x), torch.full_like(x, 4))
    assert_close(gradient(_Layer(3.0).static, x), torch.full_like(x, 4))
    assert_close(gradient(_Layer.of_class, x), torch.full_like(x, len("_Layer")))
    assert_close(_Layer(2.0)(x, shift=1.0).detach(), 2 * x.detach() + 1)


def test_a_function_that_calls_itself():
    @gs.custom_gradient
    def power_of_two(x, n):
        return x if n == 0 else 2 * power_of_two(x, n - 1)

    @power_of_two.backward
    def _(grad, n):
        return grad * 3**n

    x = vector()
    assert_close(gradient(lambda x: power_of_two(x, 5), x), torch.full_like(x, 243))


def test_thirty_levels_of_declared_functions():
    f = declared(lambda grad: grad, lambda x: 2 * x)
    for _ in range(30):
        f = (lambda inner: declared(lambda grad: 3 * grad, inner))(f)
    x = vector()
    assert_close(gradient(f, x), torch.full_like(x, 3))


def test_a_thousand_calls_in_a_row():
    f = declared(lambda grad: 1.01 * grad, lambda x: x)
    x = y = vector()
    for _ in range(1000):
        y = f(y)
    assert_close(gradient(lambda _: y, x), torch.full_like(x, 1.01**1000))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64])
def test_dtypes(dtype):
    x = torch.ones(3, dtype=dtype, requires_grad=True)
    y = declared(lambda grad, x: 2 * x * grad)(x)
    y.backward(torch.ones_like(y))
    assert y.dtype == x.grad.dtype == dtype
    assert x.grad.tolist() == [2, 2, 2]


def test_complex_gradients_follow_torch():
    square = declared(lambda grad, x: grad * 2 * x.conj(), lambda x: x * x)
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    (expected,) = torch.autograd.grad((z * z).abs().sum(), z)
    (found,) = torch.autograd.grad(square(z).abs().sum(), z)
    assert_close(found, expected)


def test_real_input_and_complex_output():
    f = declared(lambda grad: 3 * grad.real, lambda x: x * (1 + 1j))
    x = vector()
    f(x).real.sum().backward()
    assert_close(x.grad, torch.full_like(x, 3))


def test_tensors_without_data():
    x = torch.ones(2, 3, device="meta", requires_grad=True)
    declared(lambda grad, x: grad * x)(x).sum().backward()
    assert x.grad.shape == (2, 3)
    assert x.grad.device.type == "meta"


def test_subclasses_and_parameters():
    class Special(torch.Tensor):
        pass

    f = declared(lambda grad: 2 * grad)
    special = torch.ones(2).as_subclass(Special).requires_grad_()
    y = f(special)
    y.sum().backward()
    assert type(y) is Special
    assert special.grad.tolist() == [2, 2]
    parameter = torch.nn.Parameter(torch.ones(2))
    f(parameter).sum().backward()
    assert parameter.grad.tolist() == [2, 2]


def test_a_sparse_incoming_gradient():
    f = declared(lambda grad: 2 * grad, lambda x: x)
    x = vector()
    f(x).backward(torch.ones_like(x).to_sparse())
    assert_close(x.grad.to_dense(), torch.full_like(x, 2))


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("enabled", [False, True], ids=["forward outside", "forward inside"])
def test_autocast_of_the_forward_counts(enabled, inside):
    @gs.custom_gradient
    def product(x, w):
        return x @ w

    @product.backward
    def _(grad, x, w):
        return {"x": 3 * (grad @ w.T), "w": 3 * (x.T @ grad)}

    torch.manual_seed(0)
    x = torch.randn(4, 4, requires_grad=True)
    w = torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
        y = product(x, w)
        plain = x @ w
    assert y.dtype == plain.dtype == (torch.bfloat16 if enabled else torch.float32)
    expected = torch.autograd.grad(plain.float().sum(), (x, w))
    with torch.autocast("cpu", torch.bfloat16, enabled=inside):
        found = torch.autograd.grad(y.float().sum(), (x, w))
    for mine, plain_one in zip(found, expected, strict=True):
        assert mine.dtype == torch.float32
        assert_close(mine, 3 * plain_one, rtol=2e-2 if enabled else 1e-6, atol=2e-2 if enabled else 1e-6)


def test_without_gradient_there_is_no_node():
    f = declared(lambda grad: grad)
    x = vector()
    assert f(x.detach()).grad_fn is None
    with torch.no_grad():
        assert f(x).grad_fn is None
    with torch.inference_mode():
        assert f(x).is_inference()


def test_it_looks_like_the_function_it_wraps():
    @gs.custom_gradient
    def scale(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
        """Multiply."""
        return x * factor

    scale.backward(lambda grad, factor: grad * factor)
    assert scale.__name__ == "scale"
    assert scale.__doc__ == "Multiply."
    assert str(inspect.signature(scale)) == "(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor"
    assert typing.get_type_hints(scale)["factor"] is float
    assert "scale" in repr(scale)
    assert type(scale(vector()).grad_fn).__name__ == "scaleBackward"


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_the_authors_errors_surface_unchanged(where):
    error = KeyError("the author's own")

    def fail(x):
        raise error

    f = declared(fail if where == "backward" else lambda grad: grad, fail if where == "forward" else torch.sin)
    with pytest.raises(KeyError) as caught:
        f(vector()).sum().backward()
    assert caught.value is error
    with pytest.raises(KeyError) as caught:
        torch.func.vmap(torch.func.grad(f))(torch.ones(3))
    assert caught.value is error


def _rounded(x):
    return torch.as_tensor(np.round(x.detach().numpy()))


def test_a_forward_of_numpy_under_compile():
    torch._dynamo.reset()
    f = declared(lambda grad: 5 * grad, _rounded)
    x = vector(0.6, 1.6)
    f(x)
    compiled = torch.compile(lambda x: f(x) + 1, backend="aot_eager")
    assert compiled(x).tolist() == [2.0, 3.0]
    assert_close(gradient(compiled, x), torch.full_like(x, 5))


def test_a_method_under_compile():
    torch._dynamo.reset()
    x = vector()
    layer = _Layer(2.0)
    compiled = torch.compile(lambda x: layer(x) + 1, backend="aot_eager")
    assert_close(gradient(compiled, x), torch.full_like(x, 20))
    layer.scale = 3.0
    assert_close(gradient(compiled, x), torch.full_like(x, 30))
