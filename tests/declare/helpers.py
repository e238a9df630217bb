"""What the tests of `declare` share."""

import torch

import gradsmith as gs

ONES = torch.ones(2, dtype=torch.float64)


def declared(backward, forward=lambda x: x**3, **options):
    """A function of one tensor with this backward; the cube unless a forward is given."""

    def function(x):
        return forward(x)

    result = gs.custom_gradient(**options)(function)
    result.backward(backward)
    return result


def vector(*values, dtype=torch.float64):
    return torch.tensor(values or (0.5, 1.5), dtype=dtype, requires_grad=True)


def gradient(function, *inputs):
    """The gradients of the summed output."""
    found = torch.autograd.grad(function(*inputs).sum(), inputs)
    return found[0] if len(found) == 1 else found


def second(function, x, weight=1.0):
    """The derivative of the summed gradient: beside it another term of x, so that a lost one would count as zero."""
    (first,) = torch.autograd.grad((function(x) * weight).sum(), x, create_graph=True)
    return torch.autograd.grad(first.sum() + (0 * x).sum(), x)[0]
