"""Counting bytes: what a call allocates, and what it keeps alive for backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = ["HOW_ALLOCATED", "HOW_KEPT", "allocated", "kept", "same_memory"]

HOW_ALLOCATED = (
    "Bytes allocated are those of every storage that an operation returns and that is none of its arguments', seen by "
    "a TorchDispatchMode and added up whether or not they are freed again."
)
HOW_KEPT = (
    "Bytes kept for backward are those of the storages handed to torch.autograd.graph.saved_tensors_hooks, each "
    "storage counted once."
)


class _NewStorages(TorchDispatchMode):
    """Adds up the storages that operations make, forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = _storages([args, kwargs])
        self.bytes += sum(size for address, size in _storages(result).items() if address not in given)
        return result


def _storages(values: Any) -> dict[int, int]:
    """Address and size of every storage behind the tensors in a pytree."""
    tensors = [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}


def allocated(call: Callable[[], object]) -> int:
    """Bytes of tensor memory that a call asks for."""
    call()  # a first call may do more than the later ones
    with _NewStorages() as seen:
        call()
    return seen.bytes


def kept(call: Callable[[], object], x: torch.Tensor) -> tuple[int, int]:
    """Bytes saved for backward: (those of `x` itself, all others)."""
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storages.update(_storages(tensor))
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()  # held, so that no address is given out twice
    del result
    of_x = storages.pop(x.untyped_storage().data_ptr(), 0)
    return of_x, sum(storages.values())


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
