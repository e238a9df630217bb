"""Results that may be used, but not differentiated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gradsmith.declare._private import without_python_apply
from gradsmith.errors import GradientError

__all__ = ["Refusing", "refuse"]


class Refusing(torch.autograd.Function):
    """A function whose second argument says why it has no derivative; asking for one raises that."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.refusal = inputs[1]

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        raise GradientError(ctx.refusal)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise GradientError(ctx.refusal)


class _First(Refusing):
    """The identity on the first tensors."""

    generate_vmap_rule = True

    @staticmethod
    def forward(count: int, refusal: str, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple([t.detach() for t in tensors[:count]])


_apply_first = without_python_apply(_First)


def refuse(message: str, results: Sequence[Any], causes: Sequence[Any]) -> list[Any]:
    """The same results, tied to every tensor in `causes`, so that differentiating them raises `message`.

    Without that tie a result that lost its graph would count as a constant, and its derivative as zero.
    """
    tensors = [r for r in results if isinstance(r, torch.Tensor)]
    if not tensors:
        return list(results)
    causes = [c for c in causes if isinstance(c, torch.Tensor)]
    refused = iter(_apply_first(len(tensors), message, *tensors, *causes))
    return [next(refused) if isinstance(r, torch.Tensor) else r for r in results]
