"""Laws that hold for every shape, layout and type: values and gradients against plain torch."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import grad, jvp, vjp, vmap

import gradsmith as gs
from tests.declare.helpers import declared

settings.register_profile("declare", deadline=None, max_examples=60, derandomize=True)
settings.load_profile("declare")

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128]
LAYOUTS = ["contiguous", "transposed", "expanded", "strided", "flipped", "channels_last", "with an offset"]


@st.composite
def tensors(draw, dtypes=tuple(DTYPES), max_dims=4):
    """Small integers in any shape and layout, so that sums and products are exact in every dtype."""
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=max_dims)))
    layout = draw(st.sampled_from(LAYOUTS))
    seed = draw(st.integers(0, 10**6))
    return laid_out(shape, layout, draw(st.sampled_from(dtypes)), seed)


def laid_out(shape, layout, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    make = lambda *shape: torch.randint(-4, 5, shape, generator=generator).to(dtype)  # noqa: E731
    if layout == "transposed":
        return make(*reversed(shape)).permute(tuple(reversed(range(len(shape)))))
    if layout == "expanded":
        return make(*[1] * len(shape)).expand(shape)
    if layout == "strided" and shape:
        return make(*shape[:-1], 2 * shape[-1])[..., ::2]
    if layout == "flipped" and shape:
        return make(*shape).flip(0)
    if layout == "channels_last" and len(shape) == 4:
        return make(*shape).to(memory_format=torch.channels_last)
    if layout == "with an offset" and shape:
        return make(shape[0] + 1, *shape[1:])[1:]
    return make(*shape)


def same_shape(draw, tensor):
    return laid_out(tuple(tensor.shape), draw(st.sampled_from(LAYOUTS)), tensor.dtype, draw(st.integers(0, 10**6)))


@gs.custom_gradient(keep=["double"])
def times(a, b, *, factor=1):
    double = 2 * a
    return gs.keep(a * b, double=double)


@times.backward
def _(incoming, a, b, double, output, factor):
    """(3 b, a + b) instead of (b, a): not what autograd would find."""
    return {"a": 3 * factor * incoming * b.conj(), "b": incoming * (double / 2 + b).conj() + 0 * output}


def expected(incoming, a, b, factor):
    return 3 * factor * incoming * b.conj(), incoming * (a + b).conj()


@given(st.data())
def test_value_and_gradient(data):
    a = data.draw(tensors())
    b, incoming = same_shape(data.draw, a), same_shape(data.draw, a)
    factor = data.draw(st.sampled_from([0, 1, -1, 2]))
    a.requires_grad_()
    b.requires_grad_()
    y = times(a, b, factor=factor)
    assert torch.equal(y, a * b)
    assert y.dtype == a.dtype
    found = torch.autograd.grad(y, (a, b), incoming)
    for mine, plain in zip(found, expected(incoming, a, b, factor), strict=True):
        assert torch.equal(mine, plain)
        assert mine.dtype == a.dtype


@given(st.data())
def test_torch_func_agrees_with_eager(data):
    a = data.draw(tensors())
    b, incoming = same_shape(data.draw, a), same_shape(data.draw, a)
    value, pull = vjp(times, a, b)
    assert torch.equal(value, a * b)
    for mine, plain in zip(pull(incoming), expected(incoming, a, b, 1), strict=True):
        assert torch.equal(mine, plain)


@given(st.data())
def test_forward_mode_is_the_transpose(data):
    """<incoming, J t> = <J' incoming, t>, exactly, for small integers."""
    a = data.draw(tensors(dtypes=(torch.float64, torch.complex128)))
    b, incoming, ta, tb = (same_shape(data.draw, a) for _ in range(4))
    _, tangent = jvp(times, (a, b), (ta, tb))
    grad_a, grad_b = expected(incoming, a, b, 1)
    inner = lambda x, y: (x.conj() * y).sum().real  # noqa: E731
    assert torch.equal(inner(incoming, tangent), inner(grad_a, ta) + inner(grad_b, tb))


@given(st.data())
def test_vmap_over_any_dimension(data):
    a = data.draw(tensors(max_dims=3).filter(lambda t: t.dim() and t.numel()))
    b = same_shape(data.draw, a)
    dim = data.draw(st.integers(0, a.dim() - 1))
    dims = data.draw(st.sampled_from([(dim, dim), (dim, None), (None, dim)]))
    given_a = a if dims[0] is not None else a.select(dim, 0)
    given_b = b if dims[1] is not None else b.select(dim, 0)
    plain = vmap(torch.mul, dims, out_dims=dim)(given_a, given_b)
    assert torch.equal(vmap(times, dims, out_dims=dim)(given_a, given_b), plain)
    if not a.is_complex():
        gradient = vmap(grad(lambda a, b: times(a, b).sum()), dims, out_dims=dim)(given_a, given_b)
        full = b if dims[1] is not None else given_b.unsqueeze(dim).expand(a.shape)
        assert torch.equal(gradient, 3 * full)


@given(st.data())
def test_what_is_shared_by_a_batch_gets_the_sum(data):
    a = data.draw(tensors(dtypes=(torch.float32, torch.float64), max_dims=3).filter(lambda t: t.dim() and t.numel()))
    dim = data.draw(st.integers(0, a.dim() - 1))
    b = same_shape(data.draw, a).select(dim, 0)
    total = lambda a, b: vmap(times, (dim, None))(a, b).sum()  # noqa: E731
    grad_a, grad_b = grad(total, (0, 1))(a, b)
    shared = b.unsqueeze(dim).expand(a.shape)
    assert torch.equal(grad_a, 3 * shared)
    assert torch.equal(grad_b, (a + shared).sum(dim))


@given(st.data())
def test_the_gradient_is_linear_in_the_incoming_one(data):
    a = data.draw(tensors())
    b, g, h = (same_shape(data.draw, a) for _ in range(3))
    _, pull = vjp(times, a, b)
    for of_sum, of_g, of_h in zip(pull(g + 2 * h), pull(g), pull(h), strict=True):
        assert torch.equal(of_sum, of_g + 2 * of_h)


@given(tensors())
def test_straight_through_is_exact(x):
    f = gs.straight_through(lambda x: x * x - x)
    x.requires_grad_()
    y = f(x)
    assert torch.equal(y, x * x - x)
    incoming = laid_out(tuple(x.shape), "transposed", x.dtype, 1)
    assert torch.equal(torch.autograd.grad(y, x, incoming)[0], incoming)


@given(
    st.lists(st.floats(width=32), max_size=5),
)
def test_every_float_passes_to_the_bit(values):
    x = torch.tensor(values, dtype=torch.float32)
    for f in (declared(lambda grad: grad, lambda x: x), gs.straight_through(lambda x: x)):
        leaf = x.clone().requires_grad_()
        y = f(leaf)
        assert torch.equal(y.detach().view(torch.int32), x.view(torch.int32))
        (passed,) = torch.autograd.grad(y, leaf, x)
        assert torch.equal(passed.view(torch.int32), x.view(torch.int32))


LEAVES = st.sampled_from(["tensor", None, 3, "text"])
TREES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", 0]), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


def mapped(node, of_leaf):
    """The tree with every leaf replaced."""
    if isinstance(node, dict):
        return {key: mapped(value, of_leaf) for key, value in node.items()}
    if isinstance(node, (list, tuple)):
        return type(node)(mapped(value, of_leaf) for value in node)
    return of_leaf(node)


@given(TREES)
def test_any_pytree_goes_through(shape):
    tensors = []

    def tensor_or_constant(leaf):
        if leaf != "tensor":
            return leaf
        tensors.append(torch.full((2,), len(tensors) + 1.0, requires_grad=True))
        return tensors[-1]

    f = gs.custom_gradient(lambda tree: mapped(tree, lambda leaf: 2 * leaf if torch.is_tensor(leaf) else leaf))
    f.backward(lambda grads: mapped(grads, lambda leaf: 3 * leaf if torch.is_tensor(leaf) else None))
    result = f({"always": torch.ones(2, requires_grad=True), "tree": mapped(shape, tensor_or_constant)})
    outputs = []
    mapped(result["tree"], lambda leaf: outputs.append(leaf) if torch.is_tensor(leaf) else None)
    assert [y.tolist() for y in outputs] == [(2 * x).tolist() for x in tensors]
    torch.autograd.backward([y.sum() for y in [*outputs, result["always"]]])
    assert all(x.grad.tolist() == [3.0, 3.0] for x in tensors)
