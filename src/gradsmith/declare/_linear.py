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
    """Try whether it maps sums to sums and multiples to multiples: `backward(restored, grads)`.

    `grads` give shapes and dtypes only.
    """
    verdicts: list[bool] = []

    def attempt(*plain: Any) -> tuple[torch.Tensor, ...]:
        if not verdicts:  # one element of a batch is enough
            given, like = plain[: len(restored)], plain[len(restored) :]
            one = [_numbers(g, 12.9898) for g in like]
            other = [_numbers(g, 78.233) for g in like]
            half = any(g is not None and g.dtype == torch.float16 for g in like)
            factor = -16 if half else -(2**20)  # exact in floating point, and far out
            large = [None if a is None else factor * a for a in one]
            both = [None if a is None else a + b for a, b in zip(one, other, strict=True)]
            with torch.no_grad():
                a, b, c, d = (backward(given, grads) for grads in (one, other, large, both))
            verdicts.append(
                all(_equal(z, None if x is None else factor * x) for x, z in zip(a, c, strict=True))
                and all(_equal(z, None if x is None or y is None else x + y) for x, y, z in zip(a, b, d, strict=True))
            )
        return (torch.zeros(()),)

    values = [v.detach() if isinstance(v, torch.Tensor) else v for v in [*restored, *grads]]
    on_plain_tensors(attempt, "", values)
    return verdicts[0]


def _numbers(like: torch.Tensor | None, frequency: float) -> Any:
    """Numbers of both signs without a pattern, and without drawing any: that would not be allowed under vmap."""
    if like is None:
        return None
    return torch.sin(frequency * torch.arange(1, like.numel() + 1, dtype=torch.float64)).reshape(like.shape).to(like)


def _equal(got: torch.Tensor | None, expected: torch.Tensor | None) -> bool:
    """Equal up to what sums of many terms round; numbers that are not finite are no evidence."""
    if got is None or expected is None:
        return got is expected
    known = expected.isfinite() & got.isfinite()
    tolerance = 0.05 if got.element_size() < 4 else 1e-3
    size = torch.where(known, expected, 0).abs().amax() if known.numel() else 0
    return bool((torch.where(known, got - expected, 0).abs() <= tolerance * size).all())
