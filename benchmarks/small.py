"""One element: what a call costs when there is nothing to compute."""

from __future__ import annotations

from collections.abc import Callable

import torch
from byhand import CtxRound, CtxScale, CtxSquare, Empty, SetupScale
from tables import Figures, Row, compared, in_seconds
from timing import Comparison, Effort, take_turns

import gradsmith as gs
from gradsmith.declare import direct_apply
from gradsmith.learn.seeds import SplitAndScale

__all__ = ["one_element"]

Tensor = torch.Tensor


@gs.custom_gradient
def declared_scale(x: Tensor, scale: float) -> Tensor:
    """Gradient scaling as anyone would declare it, without the form gradsmith's own has been given for speed."""
    return x


@declared_scale.backward
def _(grad: Tensor, scale: float) -> Tensor:
    return grad * scale


@gs.custom_gradient
def declared_square(x: Tensor) -> Tensor:
    return x * x


@declared_square.backward
def _(grad: Tensor, x: Tensor) -> Tensor:
    return 2 * x * grad


declared_round = gs.straight_through(torch.round)

# What is compared: ours, the other's name, the other, and the target of the forward ratio.
PAIRS: list[tuple[str, Callable[[Tensor], object], str, Callable[[Tensor], object], float | None]] = [
    (
        "gs.scale_gradient",
        lambda x: gs.scale_gradient(x, 0.5),
        "a hand-written ctx-style Function",
        lambda x: CtxScale.apply(x, 0.5),
        0.8,
    ),
    (
        "gs.scale_gradient",
        lambda x: gs.scale_gradient(x, 0.5),
        "a hand-written setup_context-style Function",
        lambda x: SetupScale.apply(x, 0.5),
        0.2,
    ),
    (
        "gs.reverse_gradient",
        lambda x: gs.reverse_gradient(x, 0.5),
        "a hand-written ctx-style Function",
        lambda x: CtxScale.apply(x, -0.5),
        None,
    ),
    (
        "gradient scaling declared with custom_gradient",
        lambda x: declared_scale(x, 0.5),
        "a hand-written ctx-style Function",
        lambda x: CtxScale.apply(x, 0.5),
        1.5,
    ),
    (
        "x * x declared with custom_gradient, which saves x",
        declared_square,
        "a ctx-style Function that saves x",
        CtxSquare.apply,
        1.5,
    ),
    (
        "gs.straight_through(torch.round)",
        declared_round,
        "a ctx-style Function that rounds",
        CtxRound.apply,
        None,
    ),
    ("gs.split_and_scale", gs.split_and_scale, "the exercise's plain class", SplitAndScale.apply, None),
]


def one_element(effort: Effort) -> Figures:
    """Forward, then forward and backward, each pair measured side by side."""
    x = torch.ones(1, requires_grad=True)
    rows = []
    for ours_name, ours, other_name, other, target in PAIRS:
        what = f"forward of {ours_name} against {other_name}"
        rows.append(compared(what, _side_by_side(lambda f=ours: f(x), lambda f=other: f(x), effort), target))
    for ours_name, ours, other_name, other, _ in PAIRS:
        what = f"forward and backward of {ours_name} against {other_name}"
        rows.append(compared(what, _side_by_side(_round_trip(ours, x), _round_trip(other, x), effort)))
    return Figures("One element: what a call costs", [*rows, *_floors(x, effort)], NOTES)


NOTES = [
    "Floor: a call must make one tensor and one node of the graph. The last rows say what that costs: an alias is the "
    "cheapest tensor there is, `Function.apply` adds the node, and its Python half, which only torch.func needs, "
    "is the part that gs.scale_gradient leaves out."
]


def _round_trip(function: Callable[[Tensor], object], x: Tensor) -> Callable[[], object]:
    """Forward and backward with the incoming gradient given, so that only the function is measured."""
    outputs = function(x)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    grads = tuple(torch.ones_like(o) for o in outputs)

    def call() -> object:
        outputs = function(x)
        return torch.autograd.grad(outputs if isinstance(outputs, tuple) else (outputs,), (x,), grads)

    return call


def _side_by_side(ours: Callable[[], object], other: Callable[[], object], effort: Effort) -> Comparison:
    times = take_turns({"ours": ours, "other": other}, effort)
    return Comparison(times["ours"], times["other"])


def _floors(x: Tensor, effort: Effort) -> list[Row]:
    direct = direct_apply(Empty)
    times = take_turns(
        {
            "an alias: x.detach()": lambda: x.detach(),
            "an empty Function, by apply without its Python half": lambda: direct(x),
            "an empty Function, by apply": lambda: Empty.apply(x),
        },
        effort,
    )
    return [Row(f"floor, alone: {name}", in_seconds(t.least)) for name, t in times.items()]
