"""Inputs as an author would make them: small, plain, contiguous, the same at every call."""

from __future__ import annotations

import torch


def normal(
    *shape: int, seed: int = 0, grad: bool = True, dtype: torch.dtype = torch.float32, scale: float = 1.0
) -> torch.Tensor:
    """Standard normal values times `scale`."""
    return (torch.randn(shape, generator=_generator(shape, seed), dtype=dtype) * scale).requires_grad_(grad)


def uniform(*shape: int, low: float = 0.2, high: float = 1.2, seed: int = 0, grad: bool = True) -> torch.Tensor:
    """Values between `low` and `high`."""
    values = torch.rand(shape, generator=_generator(shape, seed))
    return (low + (high - low) * values).requires_grad_(grad)


def integers(*shape: int, high: int, seed: int = 0) -> torch.Tensor:
    """Integers from 0 to `high` - 1."""
    return torch.randint(high, shape, generator=_generator(shape, seed))


def _generator(shape: tuple[int, ...], seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(1000 * seed + sum((i + 1) * n for i, n in enumerate(shape)))
