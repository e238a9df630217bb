"""16 million floats: what counts is how often memory is read, written and newly asked for."""

from __future__ import annotations

import torch
from memory import HOW_ALLOCATED, HOW_KEPT, allocated, kept, same_memory
from tables import Figures, Row, checked, compared, in_bytes
from timing import Comparison, Effort, take_turns

import gradsmith as gs
from gradsmith.learn.seeds import SplitAndScale

__all__ = ["SIZE", "scaling", "splitting"]

SIZE = 2**24  # 64 MiB in float32, more than any cache holds
Tensor = torch.Tensor


def _input(size: int = SIZE) -> Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(0)).requires_grad_()


def scaling(effort: Effort) -> Figures:
    """gs.scale_gradient."""
    x = _input()
    g = torch.randn_like(x)
    y, unscaled, stopped = (gs.scale_gradient(x, scale) for scale in (0.5, 1.0, 0.0))
    times = take_turns(
        {
            "backward": lambda: torch.autograd.grad(y, x, g, retain_graph=True),
            "pass": lambda: g * 0.5,
            "unscaled": lambda: torch.autograd.grad(unscaled, x, g, retain_graph=True),
            "stopped": lambda: torch.autograd.grad(stopped, x, g, retain_graph=True),
        },
        effort,
    )
    one_pass = times["pass"]
    (through,) = torch.autograd.grad(unscaled, x, g, retain_graph=True)
    (zeros,) = torch.autograd.grad(stopped, x, torch.full_like(g, torch.inf), retain_graph=True)
    forward_bytes = allocated(lambda: gs.scale_gradient(x, 0.5))
    backward_bytes = allocated(lambda: torch.autograd.grad(y, x, g, retain_graph=True))
    saved = sum(kept(lambda: gs.scale_gradient(x, 0.5), x))
    rows = [
        checked("bytes the forward allocates", in_bytes(forward_bytes), "nothing", forward_bytes == 0),
        checked(
            "memory of the output", "that of x" if same_memory(x, y) else "its own", "that of x", same_memory(x, y)
        ),
        checked("bytes kept for backward", in_bytes(saved), "nothing", saved == 0),
        checked(
            "bytes the backward allocates", in_bytes(backward_bytes), "one result", backward_bytes < 1.01 * 4 * SIZE
        ),
        compared("backward against one pass, g * 0.5", Comparison(times["backward"], one_pass), 1.1),
        compared("backward with scale exactly 1 against one pass", Comparison(times["unscaled"], one_pass), 0.01),
        checked(
            "gradient with scale exactly 1",
            "the incoming one" if same_memory(through, g) else "a copy",
            "the incoming one",
            same_memory(through, g),
        ),
        compared("backward with scale 0 against one pass", Comparison(times["stopped"], one_pass)),
        checked(
            "gradient with scale 0 where the incoming one is inf",
            "all zeros" if not zeros.any() else f"{zeros[0]}",
            "all zeros",
            not zeros.any(),
        ),
    ]
    return Figures("scale_gradient on 16M floats", rows, SCALING_NOTES)


SCALING_NOTES = [
    "Floor: one result written to fresh memory from one tensor read. Asking the system for that memory is the larger "
    "part of a pass.",
    HOW_ALLOCATED,
    HOW_KEPT,
]


def splitting(effort: Effort) -> Figures:
    """gs.split_and_scale."""
    x = _input()
    grads = (torch.randn_like(x), torch.randn_like(x))

    def both(function: object) -> object:
        return torch.autograd.grad(function(x), x, grads)  # type: ignore[operator]

    outputs = gs.split_and_scale(x)
    plain_outputs = SplitAndScale.apply(x)
    data = x.detach()
    times = take_turns(
        {
            "ours": lambda: both(gs.split_and_scale),
            "plain": lambda: both(SplitAndScale.apply),
            "floor": lambda: (*_two_outputs(data), _one_gradient(data, *grads)),
            "our forward": lambda: gs.split_and_scale(x),
            "plain forward": lambda: SplitAndScale.apply(x),
            "floor forward": lambda: _two_outputs(data),
            "our backward": lambda: torch.autograd.grad(outputs, x, grads, retain_graph=True),
            "plain backward": lambda: torch.autograd.grad(plain_outputs, x, grads, retain_graph=True),
            "floor backward": lambda: _one_gradient(data, *grads),
        },
        effort,
    )
    of_x, others = kept(lambda: gs.split_and_scale(x), x)
    ours, plain = allocated(lambda: both(gs.split_and_scale)), allocated(lambda: both(SplitAndScale.apply))
    rows = [
        compared(
            "forward and backward against the exercise's plain class", Comparison(times["ours"], times["plain"]), 0.6
        ),
        compared("forward and backward against the floor", Comparison(times["ours"], times["floor"]), 1.5),
        compared("forward alone against the plain class", Comparison(times["our forward"], times["plain forward"])),
        compared("forward alone against the floor", Comparison(times["our forward"], times["floor forward"])),
        compared("backward alone against the plain class", Comparison(times["our backward"], times["plain backward"])),
        compared("backward alone against the floor", Comparison(times["our backward"], times["floor backward"])),
        checked("bytes kept for backward beside x", in_bytes(others), "nothing", others == 0),
        checked("bytes kept for backward that are x itself", in_bytes(of_x), "x", of_x == x.untyped_storage().nbytes()),
        Row("bytes allocated, forward and backward, ours and the plain class's", in_bytes(ours), in_bytes(plain)),
    ]
    return Figures("split_and_scale on 16M floats, both outputs used", rows, SPLITTING_NOTES)


SPLITTING_NOTES = [
    "Floor: two outputs and one gradient, each written once to fresh memory in one pass: x * 2, x * -1, and "
    "addcmul(grad, x, other_grad), which like the backward reads three tensors. Most of its time is spent on fresh "
    "memory, not on arithmetic.",
    HOW_ALLOCATED,
    HOW_KEPT,
]


def _two_outputs(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.mul(x, 2), torch.mul(x, -1)


def _one_gradient(x: Tensor, of_positive: Tensor, of_negative: Tensor) -> Tensor:
    return torch.addcmul(of_positive, x, of_negative)
