"""The tables about others: what they cost, and which transforms their gradient survives."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from large import SIZE
from memory import HOW_KEPT, allocated, kept
from peers import GRADSMITH, IDIOMS, Package, Peer
from tables import Grid, in_bytes, in_seconds
from timing import Comparison, Effort, take_turns
from transforms import CHECKS, ERROR, WRONG, judge

__all__ = ["costs", "survival"]

Tensor = torch.Tensor


def costs(peers: Sequence[Peer], missing: Sequence[Package], small: Effort, large: Effort) -> Grid:
    """Time and memory of every peer, next to gradsmith doing the same."""
    lines = []
    for peer in [*IDIOMS, *peers]:
        of_x, others = kept(lambda p=peer: p.call(_input(SIZE)), _input(SIZE))
        forward = allocated(lambda p=peer: p.call(_input(SIZE)))
        lines.append(
            [peer.name, *_cost(peer, 1, small), *_cost(peer, SIZE, large), _kept(of_x, others), in_bytes(forward)]
        )
    notes = [
        "Forward and backward, each peer side by side with gradsmith's call for the same. A ratio below 1 means that "
        "gradsmith takes less time. gradsmith keeps nothing for backward and allocates nothing in forward.",
        HOW_KEPT,
        *[f"{p.name} is not installed; add it with: pip install --no-deps {p.install}" for p in missing],
    ]
    return Grid("Others: what they cost", COST_HEADS, lines, notes)


COST_HEADS = [
    "peer",
    "1 element",
    "gradsmith",
    "ratio",
    "16M elements",
    "gradsmith",
    "ratio",
    "kept for backward, 16M",
    "allocated in forward, 16M",
]


def _cost(peer: Peer, size: int, effort: Effort) -> list[str]:
    x = _input(size)
    grads = torch.ones(size)
    times = take_turns(
        {"ours": _there_and_back(peer.gradsmith, x, grads), "other": _there_and_back(peer.call, x, grads)}, effort
    )
    ratio = Comparison(times["ours"], times["other"]).of_least
    return [in_seconds(times["other"].least), in_seconds(times["ours"].least), f"{ratio:.2f}x"]


def _there_and_back(call: Callable[[Tensor], Tensor], x: Tensor, grad: Tensor) -> Callable[[], object]:
    return lambda: torch.autograd.grad(call(x), x, grad)


_inputs: dict[int, Tensor] = {}


def _input(size: int) -> Tensor:
    """One input per size for all peers."""
    if size not in _inputs:
        _inputs[size] = torch.ones(size, requires_grad=True)
    return _inputs[size]


def _kept(of_x: int, others: int) -> str:
    parts = [f"x: {in_bytes(of_x)}"] * bool(of_x) + [in_bytes(others)] * bool(others)
    return " + ".join(parts) or "nothing"


def survival(peers: Sequence[Peer]) -> Grid:
    """Which transforms the gradient of each survives, by value."""
    subjects = [GRADSMITH, *IDIOMS, *peers]
    verdicts = {peer.short: judge(peer) for peer in subjects}
    lines = [[check, *[verdicts[p.short][check][0] for p in subjects]] for check in CHECKS]
    for verdict in (ERROR, WRONG):
        counts = [sum(v == verdict for v, _ in verdicts[p.short].values()) for p in subjects]
        lines.append([f"sum of {verdict}", *map(str, counts)])
    messages = [
        f"{peer.name}, {check}: {message[:160]}"
        for peer in subjects[:1]
        for check, (_, message) in verdicts[peer.short].items()
        if message
    ]
    return Grid(
        "Others: which transforms the gradient survives", ["", *[p.short for p in subjects]], lines, [*NOTES, *messages]
    )


NOTES = [
    "Judged by value against factor * 3 x^2, the gradient of sum(peer(x) ** 3), and what follows from it. error: "
    "PyTorch refuses. WRONG: a wrong result and no error. Compiled with backend aot_eager and fullgraph=True.",
    "The columns, left to right, are gs.scale_gradient and the peers of the table before.",
    "export, backward: the exported program is differentiated, in a module with a way around the peer.",
]
