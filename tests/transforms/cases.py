"""The columns of the support table: one entry per operation. Adding an entry gives an operation the whole table.

An entry states what is meant, in plain torch maths that knows nothing of gradsmith:

* `forward(*inputs, **options)`: the value;
* `gradient(*inputs, *incoming, **options)`: the declared gradient of every input, given those of the outputs.

Derivatives of a higher order, tangents and Jacobians follow from these two by linear algebra (`expected.py`). Wherever
possible the declared gradient is *not* the derivative of the forward, so that a transform that drops it is noticed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch._dynamo.exc import Unsupported

import gradsmith as gs


@dataclass(frozen=True)
class Refusal:
    """Where being right is impossible: the error that says so, and the words for the table."""

    error: type[Exception]
    message: str  # a regular expression
    reason: str


@dataclass(frozen=True)
class Case:
    """One operation and what is expected of it."""

    name: str
    function: Callable[..., Any]  # tensors, then options by keyword; must pickle
    forward: Callable[..., Any]
    gradient: Callable[..., Any]
    options: Mapping[str, float] = field(default_factory=dict)
    other_options: Mapping[str, float] = field(default_factory=dict)  # the same ones, with other values
    shapes: tuple[tuple[int, ...], ...] = ((2, 3),)  # one per input
    any_shape: bool = True
    outputs: int = 1
    complex: bool = False
    refused: Mapping[str, Refusal] = field(default_factory=dict)  # by the tag of a variant


# Operations declared here, for what the catalogue does not show -------------------------------------------------

round_ste = gs.straight_through(torch.round)


@gs.gradient_of(torch.tanh)
def sign_like_tanh(x):
    return torch.sign(x)


@gs.custom_gradient
def cube_like_sine(x):
    return x**3


@cube_like_sine.backward
def _(grad, x):
    return grad * torch.cos(x)


@gs.custom_gradient(keep=["exponential"])
def softplus_times_three(x):
    exponential = torch.exp(x)
    return gs.keep(torch.log1p(exponential), exponential=exponential)


@softplus_times_three.backward
def _(grad, x, exponential):
    return 3 * grad * exponential / (1 + exponential)


@gs.custom_gradient
def product(x, y, *, slope=2.0):
    return x * y


@product.backward
def _(grad, x, y, slope):
    return {"x": slope * grad * y.conj(), "y": -3 * grad * x.conj()}


@gs.custom_gradient
def matmul(x, y):
    return x @ y


@matmul.backward
def _(grad, x, y):
    return {"x": 2 * grad @ y.mT, "y": -3 * x.mT @ grad}


def in_numpy(tensor):
    return tensor.double().numpy(force=True)


@gs.custom_gradient
def numpy_exp(x):
    return torch.from_numpy(np.asarray(np.exp(in_numpy(x)))).to(x.dtype)


@numpy_exp.backward
def _(grad, x):
    return grad * torch.cos(x)


@gs.custom_gradient
def numpy_both_ways(x):
    return torch.from_numpy(np.asarray(np.exp(in_numpy(x)))).to(x.dtype)


@numpy_both_ways.backward
def _(grad, x):
    return torch.from_numpy(np.asarray(in_numpy(grad) * np.cos(in_numpy(x)))).to(grad.dtype)


# The columns ----------------------------------------------------------------------------------------------------

NO_NUMPY_IN_GRAPHS = {
    "fullgraph": Refusal(
        Unsupported,
        "hands its numbers to code that torch.compile cannot trace",
        "numpy cannot be traced: it needs a graph break",
    ),
    "make_fx of forward and backward": Refusal(
        gs.DeclarationError,
        "cannot be traced into a graph: it hands numbers to code outside PyTorch",
        "numpy cannot be traced: the graph would hold the numbers of one call",
    ),
    "export": Refusal(RuntimeError, r"\.numpy\(\) is not supported", "numpy cannot be exported"),
}
CASES = [
    Case(
        "scale_gradient",
        gs.scale_gradient,
        lambda x, scale: x,
        lambda x, g, scale: scale * g,
        options={"scale": -0.5},
        other_options={"scale": 3.0},
        complex=True,
    ),
    Case(
        "reverse_gradient",
        gs.reverse_gradient,
        lambda x, strength: x,
        lambda x, g, strength: -strength * g,
        options={"strength": 2.0},
        other_options={"strength": 0.25},
        complex=True,
    ),
    Case(
        "split_and_scale",
        gs.split_and_scale,
        lambda x, positive_scale, negative_scale: (x.clamp(min=0) * positive_scale, x.clamp(max=0) * negative_scale),
        lambda x, p, n, positive_scale, negative_scale: p * (x > 0) * positive_scale + n * (x < 0) * negative_scale,
        options={"positive_scale": 2.0, "negative_scale": -1.0},
        other_options={"positive_scale": -0.5, "negative_scale": 4.0},
        outputs=2,
    ),
    Case("straight_through(round)", round_ste, torch.round, lambda x, g: g),
    Case("gradient_of(tanh)", sign_like_tanh, torch.sign, lambda x, g: g * (1 - torch.tanh(x) ** 2)),
    Case("declared: not the derivative", cube_like_sine, lambda x: x**3, lambda x, g: g * torch.cos(x)),
    Case(
        "declared: an intermediate",
        softplus_times_three,
        torch.nn.functional.softplus,
        lambda x, g: 3 * g * torch.sigmoid(x),
    ),
    Case(
        "declared: two inputs and an option",
        product,
        lambda x, y, slope: x * y,
        lambda x, y, g, slope: (slope * y.conj() * g, -3 * x.conj() * g),
        options={"slope": -2.0},
        other_options={"slope": 5.0},
        shapes=((2, 3), (2, 3)),
        complex=True,
    ),
    Case(
        "declared: a matrix product",
        matmul,
        lambda x, y: x @ y,
        lambda x, y, g: (2 * g @ y.mT, -3 * x.mT @ g),
        shapes=((3, 3), (3, 3)),
        any_shape=False,
    ),
    Case(
        "declared: a numpy forward",
        numpy_exp,
        torch.exp,
        lambda x, g: g * torch.cos(x),
        refused=NO_NUMPY_IN_GRAPHS,
    ),
    Case(
        "declared: numpy both ways",
        numpy_both_ways,
        torch.exp,
        lambda x, g: g * torch.cos(x),
        refused={
            **NO_NUMPY_IN_GRAPHS,
            "second": Refusal(
                gs.GradientError,
                "the gradient of numpy_both_ways cannot be differentiated.*: its backward calls",
                "a numpy backward has no derivative",
            ),
            "forward mode": Refusal(
                gs.GradientError,
                "the gradient of numpy_both_ways cannot be differentiated.*forward mode: its backward calls",
                "a numpy backward has no transpose, which forward mode needs",
            ),
            "is_grads_batched": Refusal(
                RuntimeError,
                "Batching rule not implemented for aten::detach",
                "is_grads_batched runs torch's first vmap, which numpy code cannot enter",
            ),
        },
    ),
]
