"""Large elementwise work done in pieces that stay in the processor's cache.

A chain of elementwise operations on a large tensor writes every intermediate to memory, and the memory of each is
fresh and has to be mapped first. In pieces, only the result is.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from gradsmith.declare import being_traced, transforms_active

__all__ = ["PIECE", "in_pieces", "pieces"]

PIECE = 1 << 19  # elements: intermediates of 2 MiB in float32


def in_pieces(*tensors: torch.Tensor) -> bool:
    """Whether it pays and is possible: large plain tensors of one layout on the CPU, no gradient recorded."""
    first = tensors[0]
    return (
        first.numel() > PIECE
        and first.device.type == "cpu"
        and first.is_contiguous()
        and all(_plain(t) and (t.stride() == first.stride() or _one_number(t)) for t in tensors)
        and not (torch.is_grad_enabled() or transforms_active() or being_traced())
    )


def pieces(*tensors: torch.Tensor) -> Iterator[tuple[torch.Tensor, ...]]:
    """The same piece of every tensor, one after another, as views."""
    flat = [t.as_strided((t.numel(),), (0,)) if _one_number(t) else t.view(-1) for t in tensors]
    yield from zip(*[t.split(PIECE) for t in flat], strict=True)


def _plain(tensor: torch.Tensor) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.layout == torch.strided


def _one_number(tensor: torch.Tensor) -> bool:
    """Whether it is one number expanded, as the gradient of a sum is."""
    return not any(tensor.stride())
