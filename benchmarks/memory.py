"""Counting bytes: what a call allocates, and what it keeps alive for backward."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.profiler import ProfilerActivity, profile

__all__ = ["HOW_ALLOCATED", "HOW_KEPT", "allocated", "kept", "same_memory"]

HOW_ALLOCATED = "Allocations are those torch.profiler reports (profile_memory=True), summed before any is freed."
HOW_KEPT = (
    "Bytes kept for backward are those of the storages handed to torch.autograd.graph.saved_tensors_hooks, each "
    "storage counted once."
)


def allocated(call: Callable[[], object]) -> int:
    """Bytes of tensor memory that a call asks for, whether or not it gives them back."""
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        result = call()  # held, so that freeing the result is not part of the record
    events = record.events() or []
    del result
    return sum(max(event.self_cpu_memory_usage, 0) for event in events)


def kept(call: Callable[[], object], x: torch.Tensor) -> tuple[int, int]:
    """Bytes saved for backward: (those of `x` itself, all others)."""
    storages: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        result = call()
    del result
    of_x = storages.pop(x.untyped_storage().data_ptr(), 0)
    return of_x, sum(storages.values())


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.data_ptr() == b.data_ptr() and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
