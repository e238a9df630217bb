"""Whether a gradient multiplied by a factor still is, under every transform: judged by value.

Every check returns pairs of what came and what should have come. The peer is wrapped in a loss of third degree,
`sum(peer(x) ** 3)`, so that a dropped factor shows in the first derivative and a doubled one in the second.
"""

from __future__ import annotations

import copy
import io
import logging
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from peers import Peer
from torch import nn
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jvp, vmap

__all__ = ["CHECKS", "ERROR", "RIGHT", "WRONG", "judge"]

RIGHT, ERROR, WRONG = "right", "error", "WRONG"
Tensor = torch.Tensor
Pairs = list[tuple[Tensor, Tensor]]
CHECKS: dict[str, Callable[[Peer], Pairs]] = {}

X = torch.tensor([-1.5, -0.25, 0.5, 2.0])
ROWS = torch.stack([X, 3 * X, X.flip(0)])
TANGENT = torch.tensor([1.0, -2.0, 0.5, 4.0])


def judge(peer: Peer) -> dict[str, tuple[str, str]]:
    """For every check its verdict, and what PyTorch said where it is an error."""
    return {name: _verdict(check, peer) for name, check in CHECKS.items()}


def _verdict(check: Callable[[Peer], Pairs], peer: Peer) -> tuple[str, str]:
    torch.compiler.reset()
    try:
        with _quiet():
            pairs = check(peer)
    except Exception as error:  # noqa: BLE001  whatever a peer or PyTorch raises is the answer
        return ERROR, f"{type(error).__name__}: {error}".splitlines()[0]
    right = all(
        torch.equal(came, wanted) if not wanted.is_floating_point() else torch.allclose(came, wanted, equal_nan=True)
        for came, wanted in pairs
    )
    return (RIGHT if right else WRONG), ""


@contextmanager
def _quiet() -> Iterator[None]:
    """A refused compilation is an answer here, not something to report on the way."""
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def _check(name: str) -> Callable[[Callable[[Peer], Pairs]], Callable[[Peer], Pairs]]:
    def register(check: Callable[[Peer], Pairs]) -> Callable[[Peer], Pairs]:
        CHECKS[name] = check
        return check

    return register


# What should come -------------------------------------------------------------------------------------------------


def _loss(peer: Peer) -> Callable[[Tensor], Tensor]:
    return lambda x: (peer.call(x) ** 3).sum()


def _gradient(peer: Peer, x: Tensor) -> Tensor:
    return peer.factor * 3 * x**2


def _second(peer: Peer, x: Tensor) -> Tensor:
    """The factor meets both derivatives: the incoming gradient, too, came through the peer."""
    return peer.factor**2 * 6 * x


def _leaf(x: Tensor = X) -> Tensor:
    return x.clone().requires_grad_()


def _compile(function: Callable[..., object]) -> Callable[..., object]:
    return torch.compile(function, fullgraph=True, backend="aot_eager")


# Eager ------------------------------------------------------------------------------------------------------------


@_check("backward")
def _backward(peer: Peer) -> Pairs:
    x = _leaf()
    _loss(peer)(x).backward()
    return [(x.grad, _gradient(peer, X))]


@_check("second derivative")
def _second_derivative(peer: Peer) -> Pairs:
    x = _leaf()
    (first,) = torch.autograd.grad(_loss(peer)(x), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return [(second, _second(peer, X))]


@_check("same bits")
def _same_bits(peer: Peer) -> Pairs:
    return _bits(peer, torch.randn(1000, generator=torch.Generator().manual_seed(0)))


@_check("same bits: inf, nan, -0.0")
def _same_special_bits(peer: Peer) -> Pairs:
    return _bits(peer, torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0, 1e-45, 3.4e38]))


def _bits(peer: Peer, values: Tensor) -> Pairs:
    came = peer.call(values.clone().requires_grad_()).detach()
    return [(came.view(torch.int32), values.view(torch.int32))]


@_check("in-place afterwards")
def _in_place(peer: Peer) -> Pairs:
    x = _leaf()
    y = peer.call(x * 1)
    y.mul_(2)
    (y**3).sum().backward()
    return [(x.grad, 8 * _gradient(peer, X))]


@_check("pickle, deepcopy")
def _copies(peer: Peer) -> Pairs:
    module = peer.module()
    buffer = io.BytesIO()
    pickle.dump(module, buffer)
    buffer.seek(0)
    pairs = []
    for restored in (pickle.load(buffer), copy.deepcopy(module)):
        x = _leaf()
        (restored(x) ** 3).sum().backward()
        pairs.append((x.grad, _gradient(peer, X)))
    return pairs


# torch.func and forward mode --------------------------------------------------------------------------------------


@_check("func.grad")
def _func_grad(peer: Peer) -> Pairs:
    return [(grad(_loss(peer))(X), _gradient(peer, X))]


@_check("vmap(grad)")
def _vmap_grad(peer: Peer) -> Pairs:
    return [(vmap(grad(_loss(peer)))(ROWS), _gradient(peer, ROWS))]


@_check("jvp")
def _jvp(peer: Peer) -> Pairs:
    value, tangent = jvp(peer.call, (X,), (TANGENT,))
    return [(value, X), (tangent, peer.factor * TANGENT)]


@_check("forward AD")
def _forward_ad(peer: Peer) -> Pairs:
    with forward_ad.dual_level():
        value, tangent = forward_ad.unpack_dual(peer.call(forward_ad.make_dual(X, TANGENT)))
    return [(value, X), (tangent, peer.factor * TANGENT)]


@_check("jacfwd")
def _jacfwd(peer: Peer) -> Pairs:
    return [(jacfwd(peer.call)(X), peer.factor * torch.eye(len(X)))]


@_check("hessian")
def _hessian(peer: Peer) -> Pairs:
    return [(hessian(_loss(peer))(X), torch.diag(_second(peer, X)))]


# torch.compile and torch.export -----------------------------------------------------------------------------------


@_check("compile, backward")
def _compiled(peer: Peer) -> Pairs:
    x = _leaf()
    _compile(_loss(peer))(x).backward()
    return [(x.grad, _gradient(peer, X))]


@_check("compile(func.grad)")
def _compiled_grad(peer: Peer) -> Pairs:
    return [(_compile(grad(_loss(peer)))(X), _gradient(peer, X))]


@_check("compile(vmap(grad))")
def _compiled_vmap_grad(peer: Peer) -> Pairs:
    return [(_compile(vmap(grad(_loss(peer))))(ROWS), _gradient(peer, ROWS))]


@_check("compile(vmap), backward")
def _compiled_vmap(peer: Peer) -> Pairs:
    x = _leaf(ROWS)
    (_compile(vmap(peer.call))(x) ** 3).sum().backward()
    return [(x.grad, _gradient(peer, ROWS))]


@_check("compile(jvp)")
def _compiled_jvp(peer: Peer) -> Pairs:
    value, tangent = _compile(lambda x, t: jvp(peer.call, (x,), (t,)))(X, TANGENT)
    return [(value, X), (tangent, peer.factor * TANGENT)]


class _TwoPaths(nn.Module):
    """A way around the peer, so that a gradient still comes where the peer's is lost."""

    def __init__(self, peer: nn.Module) -> None:
        super().__init__()
        self.peer = peer

    def forward(self, x: Tensor) -> Tensor:
        return self.peer(x) ** 3 + x**2


@_check("export, forward")
def _exported(peer: Peer) -> Pairs:
    program = torch.export.export(_TwoPaths(peer.module()), (X.clone(),))
    return [(program.module()(ROWS[1]), ROWS[1] ** 3 + ROWS[1] ** 2)]


@_check("export, backward")
def _exported_backward(peer: Peer) -> Pairs:
    program = torch.export.export(_TwoPaths(peer.module()), (_leaf(),))
    x = _leaf()
    program.module()(x).sum().backward()
    return [(x.grad, _gradient(peer, X) + 2 * X)]
