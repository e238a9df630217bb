"""How cost grows with size: from the overhead of a call to the traffic of memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from byhand import CtxScale
from tables import Figures, compared
from timing import Comparison, Effort, take_turns

import gradsmith as gs
from gradsmith.learn.seeds import SplitAndScale
from gradsmith.ops._pieces import PIECE

__all__ = ["growth"]

SIZES = {"1": 1, "100": 100, "10k": 10**4, "100k": 10**5, "1M": 10**6, "16M": 2**24}
Tensor = torch.Tensor


def growth(effort: Effort) -> Figures:
    rows = []
    for name, ours, other_name, other in [
        ("scale_gradient", _our_scale, "ctx style", _ctx_scale),
        ("split_and_scale", gs.split_and_scale, "the plain class", SplitAndScale.apply),
    ]:
        for label, size in SIZES.items():
            times = take_turns({"ours": _there_and_back(ours, size), "other": _there_and_back(other, size)}, effort)
            what = f"{name} against {other_name}, {label} element{'s' * (size > 1)}"
            rows.append(compared(what, Comparison(times["ours"], times["other"])))
    return Figures("How cost grows: forward and backward", rows, NOTES)


NOTES = [
    "Floor: up to some 10k elements it is the call, beyond that memory. scale_gradient then costs what its one "
    f"multiplication costs; split_and_scale works in pieces that stay in the cache from {PIECE:,} elements on."
]


def _our_scale(x: Tensor) -> Tensor:
    return gs.scale_gradient(x, 0.5)


def _ctx_scale(x: Tensor) -> Tensor:
    return CtxScale.apply(x, 0.5)


def _there_and_back(function: Callable[[Tensor], object], size: int) -> Callable[[], object]:
    x = torch.randn(size, generator=torch.Generator().manual_seed(0)).requires_grad_()
    outputs = function(x)
    count = len(outputs) if isinstance(outputs, tuple) else 1
    grads = tuple(torch.randn_like(x) for _ in range(count))
    return lambda: torch.autograd.grad(function(x), x, grads)
