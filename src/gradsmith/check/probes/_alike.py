"""Whether two gradients are alike, None standing for zeros."""

from __future__ import annotations

import torch

__all__ = ["close", "conjugate", "nonzero"]


def conjugate(tensor: torch.Tensor | None) -> torch.Tensor | None:
    """The complex conjugate, in memory of its own."""
    return None if tensor is None else tensor.conj().resolve_conj()


def nonzero(tensor: torch.Tensor | None) -> bool:
    """Whether any element is not zero."""
    return tensor is not None and bool((tensor != 0).any())


def close(a: torch.Tensor | None, b: torch.Tensor | None) -> bool:
    """Equal but for rounding."""
    if a is None or b is None:
        return not nonzero(a) and not nonzero(b)
    if a.shape != b.shape:
        return False
    largest = float(b.abs().max()) if b.numel() else 0.0  # small numbers are compared as closely as large ones
    slack = 1e-8 * min(largest, 1.0) if largest == largest else 1e-8
    return torch.allclose(a, b.to(a.dtype), rtol=1e-4, atol=slack, equal_nan=True)
