"""Run a function on plain tensors, beneath every torch.func transform.

A transform hands a function tensors it cannot open: `.numpy()`, `.item()` or a kernel fail on them. vmap means a loop,
so a loop is always right, only slower; and a derivative that is not taken needs no record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradsmith.declare._private import functorch_is_active
from gradsmith.declare._refuse import Refusing
from gradsmith.errors import GradsmithError

__all__ = ["lowered", "on_plain_tensors", "worth_lowering"]


def worth_lowering(error: Exception) -> bool:
    """Whether running on plain tensors may help, after `error` under a transform."""
    # vmap refuses to draw random numbers unless it is told how; a loop must not get around that.
    return (
        functorch_is_active()
        and isinstance(error, RuntimeError)
        and not isinstance(error, GradsmithError)
        and "randomness" not in str(error)
    )


def lowered(function: Callable[[Sequence[Any]], Sequence[Any]], values: Sequence[Any], refusal: str) -> Sequence[Any]:
    """`function(values)` on plain tensors.

    Results are tensors or None. Differentiating results that were computed on plain tensors raises `refusal`.
    """
    present: list[bool] = []

    def on_plain(*plain: Any) -> tuple[torch.Tensor, ...]:
        results = function(plain)
        present[:] = [r is not None for r in results]
        return tuple([r for r in results if r is not None])

    results = iter(on_plain_tensors(on_plain, refusal, values))
    return [next(results) if there else None for there in present]


def on_plain_tensors(
    function: Callable[..., tuple[torch.Tensor, ...]], refusal: str, values: Sequence[Any]
) -> tuple[torch.Tensor, ...]:
    """`function(*values)` beneath every transform; under vmap, once per element, with the results stacked."""
    results: tuple[torch.Tensor, ...] = _Lowered.apply(function, refusal, *values)
    return results


class _Lowered(Refusing):
    @staticmethod
    def forward(function: Callable[..., Any], refusal: str, *values: Any) -> Any:
        return function(*values)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], function: Callable[..., Any], refusal: str, *values: Any) -> Any:
        dims = in_dims[2:]
        rows = [
            _Lowered.apply(
                function,
                refusal,
                *[v if d is None else v.select(d, i) for v, d in zip(values, dims, strict=True)],
            )
            for i in range(info.batch_size)
        ]
        if not rows:
            raise RuntimeError("this function takes no batches, and a loop over an empty batch has nothing to run")
        columns = tuple([torch.stack(column) for column in zip(*rows, strict=True)])
        return columns, (0,) * len(columns)
