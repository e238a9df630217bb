"""A custom operator's schema, fake implementation and registration, by torch's own opcheck."""

from __future__ import annotations

from typing import Any

import torch

from gradsmith.check._bench import Bench, Trial

__all__ = ["registration"]


def registration(bench: Bench) -> None:
    """Run `torch.library.opcheck` on a custom operator; of other subjects there is nothing to say."""
    if bench.subject.kind != "custom_op":
        return
    if bench.fast:
        bench.skip("torch.library", "left out by fast")
        return
    tensors = [t.clone().requires_grad_(n) for t, n in zip(bench.given.tensors, bench.given.needs, strict=True)]
    args, kwargs = bench.given.arguments(tensors)
    holder = Trial()
    results: dict[str, object] = {}
    with bench.guarded(holder, "opcheck"):
        operator: Any = bench.subject.call
        results = dict(torch.library.opcheck(operator, args, kwargs, raise_exception=False))
    if holder.failure is not None:
        bench.skip("torch.library", f"opcheck itself failed: {holder.failure['text']}")
    for test, result in results.items():
        text = "SUCCESS" if result == "SUCCESS" else _first_lines(str(result))
        bench.see("registration", test=test, status="SUCCESS" if result == "SUCCESS" else "FAILED", text=text)


def _first_lines(text: str) -> str:
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return " ".join(lines[:2])[:300]
