"""Others that do the same: packages from PyPI, and the forms people copy from one another.

`pip install --no-deps -r benchmarks/requirements.txt` adds the packages. Without --no-deps some would bring a
PyTorch of their own choice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from byhand import CtxScale, SetupScale, SetupScaleJvp, detach_form, hook_form
from torch import nn

import gradsmith as gs

__all__ = ["GRADSMITH", "IDIOMS", "PACKAGES", "Applied", "Package", "Peer", "installed"]

Tensor = torch.Tensor


@dataclass(frozen=True)
class Peer:
    """A way to multiply the gradient by `factor`, and gradsmith's call for the same."""

    name: str
    short: str
    factor: float
    call: Callable[[Tensor], Tensor]
    module: Callable[[], nn.Module]
    gradsmith: Callable[[Tensor], Tensor]


class Applied(nn.Module):
    """A function of one tensor and a factor as a module, as anyone would wrap it."""

    def __init__(self, function: Callable[..., Tensor], factor: float) -> None:
        super().__init__()
        self.function = function
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.factor)


def _peer(name: str, short: str, function: Callable[..., Tensor], factor: float = -0.5) -> Peer:
    return Peer(
        name,
        short,
        factor,
        lambda x: function(x, factor),
        functools.partial(Applied, function, factor),
        lambda x: gs.scale_gradient(x, factor),
    )


# A bound `apply` does not pickle, so the Functions stand behind functions of their own.
def ctx_style(x: Tensor, factor: float) -> Tensor:
    return CtxScale.apply(x, factor)


def setup_style(x: Tensor, factor: float) -> Tensor:
    return SetupScale.apply(x, factor)


def setup_style_with_jvp(x: Tensor, factor: float) -> Tensor:
    return SetupScaleJvp.apply(x, factor)


GRADSMITH = _peer("gs.scale_gradient", "gradsmith", gs.scale_gradient)
IDIOMS = [
    _peer("by hand: ctx style", "ctx", ctx_style),
    _peer("by hand: setup_context and generate_vmap_rule", "setup", setup_style),
    _peer("by hand: the same with jvp", "setup, jvp", setup_style_with_jvp),
    _peer("by hand: d + (x - d) * s, where d = x.detach()", "detach", detach_form),
    _peer("by hand: a hook on an alias", "hook", hook_form),
]


# Packages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Package:
    """A package on PyPI: what pip installs for it, beside PyTorch, and how it is used."""

    name: str
    install: str
    load: Callable[[], Peer]


def installed() -> tuple[list[Peer], list[Package]]:
    """The peers that can be imported, and the packages of those that cannot."""
    peers, missing = [], []
    for package in PACKAGES:
        try:
            peers.append(package.load())
        except ImportError:
            missing.append(package)
    return peers, missing


def _pytorch_revgrad() -> Peer:
    from pytorch_revgrad import RevGrad
    from pytorch_revgrad.functional import revgrad

    alpha = torch.tensor(0.5)
    return Peer("pytorch-revgrad", "revgrad", -0.5, lambda x: revgrad(x, alpha), lambda: RevGrad(0.5), _reversed)


def _pytorch_adapt() -> Peer:
    from pytorch_adapt.layers.gradient_reversal import GradientReversal

    return Peer("pytorch-adapt", "adapt", -0.5, GradientReversal(0.5), lambda: GradientReversal(0.5), _reversed)


def _reversed(x: Tensor) -> Tensor:
    return gs.reverse_gradient(x, 0.5)


def _freegrad() -> Peer:
    import freegrad  # noqa: F401

    return Peer("freegrad", "freegrad", -0.5, _FreeGrad(), _FreeGrad, lambda x: gs.scale_gradient(x, -0.5))


class _FreeGrad(nn.Module):
    """freegrad takes the rule from a context around the forward, and names its identity Linear."""

    def __init__(self) -> None:
        from freegrad import Activation

        super().__init__()
        self.identity = Activation("Linear")

    def forward(self, x: Tensor) -> Tensor:
        from freegrad import use

        with use("scale", {"s": -0.5}):
            return self.identity(x)


def _vector_quantize() -> Peer:
    from vector_quantize_pytorch.residual_vq import frac_gradient

    # With a negative factor it stops the gradient, so this one is measured with a positive factor.
    return _peer("vector-quantize-pytorch's frac_gradient", "vq", frac_gradient, 0.3)


PACKAGES = [
    Package("pytorch-revgrad", "pytorch-revgrad", _pytorch_revgrad),
    Package("freegrad", "freegrad", _freegrad),
    Package(
        "vector-quantize-pytorch",
        "vector-quantize-pytorch einops einx frozendict loguru torch-einops-utils",
        _vector_quantize,
    ),
    Package(
        "pytorch-adapt",
        "pytorch-adapt pytorch-metric-learning torchmetrics lightning-utilities tqdm scikit-learn scipy joblib "
        "threadpoolctl narwhals numpy packaging",
        _pytorch_adapt,
    ),
]
