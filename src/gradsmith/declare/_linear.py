"""Whether a backward is linear in the incoming gradient. Forward mode is its transpose, and exists only then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradsmith.declare._lowered import on_plain_tensors

__all__ = ["scales_with_gradient"]


def scales_with_gradient(
    backward: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]], restored: Sequence[Any], grads: Sequence[Any]
) -> bool:
    """Try it on random gradients of two sizes: `backward(restored, grads)`, where `grads` give shape and dtype."""
    verdicts: list[bool] = []

    def attempt(*plain: Any) -> tuple[torch.Tensor, ...]:
        if not verdicts:  # one element of a batch is enough
            given, like = plain[: len(restored)], plain[len(restored) :]
            generator = torch.Generator().manual_seed(0)
            small = [g if g is None else torch.randn(g.shape, generator=generator).to(g) for g in like]
            factor = 16 if any(g is not None and g.dtype == torch.float16 for g in like) else 1024  # exact in floats
            large = [g if g is None else g * factor for g in small]
            with torch.no_grad():
                first, second = backward(given, small), backward(given, large)
            verdicts.append(all(_multiple(a, b, factor) for a, b in zip(first, second, strict=True)))
        return (torch.zeros(()),)

    values = [v.detach() if isinstance(v, torch.Tensor) else v for v in [*restored, *grads]]
    on_plain_tensors(attempt, "", values)
    return verdicts[0]


def _multiple(a: Any, b: Any, factor: int) -> bool:
    if a is None or b is None:
        return a is b
    return torch.allclose(a * factor, b, rtol=1e-2 if a.element_size() < 4 else 1e-4, equal_nan=True)
