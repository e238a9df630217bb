"""What a check costs as its inputs grow: seconds, and memory beyond what was there before."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import torch
from torch.autograd import Function

import gradsmith as gs

__all__ = ["measure"]

PAGE = 4096


class RMSNorm(Function):
    """Root-mean-square norm with a gain, computed again in backward."""

    @staticmethod
    def forward(ctx, x, gain):
        ctx.save_for_backward(x, gain)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain

    @staticmethod
    def backward(ctx, grad):
        x, gain = ctx.saved_tensors
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        unit, inner = x * scale, grad * gain
        grad_x = scale * (inner - unit * (inner * unit).mean(-1, keepdim=True))
        return grad_x, (grad * unit).sum_to_size(gain.shape)


class Memory:
    """The largest resident size while the body runs, beyond that before it."""

    def __enter__(self) -> Memory:
        self.before, self.most, self.running = resident(), 0, True
        self.watcher = threading.Thread(target=self._watch)
        self.watcher.start()
        return self

    def _watch(self) -> None:
        while self.running:
            self.most = max(self.most, resident() - self.before)
            time.sleep(0.001)

    def __exit__(self, *_: object) -> None:
        self.running = False
        self.watcher.join()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def measure(sizes: tuple[int, ...] = (100, 10_000, 100_000, 1_000_000)) -> list[tuple[int, float, float]]:
    """For each number of elements the seconds, and the memory as a multiple of inputs and outputs."""
    rows = []
    gs.check(RMSNorm, (torch.randn(4, 10, requires_grad=True), torch.randn(10, requires_grad=True)))
    for elements in sizes:
        x = torch.randn(elements // 10, 10, requires_grad=True)
        gain = torch.randn(10, requires_grad=True)
        started = time.perf_counter()
        with Memory() as memory:
            report = gs.check(RMSNorm, (x, gain))
        assert report.ok, str(report)
        held = (2 * x.numel() + gain.numel()) * x.element_size()
        rows.append((elements, time.perf_counter() - started, memory.most / held))
    return rows


if __name__ == "__main__":
    for elements, seconds, times in measure():
        print(f"{elements:>9} elements: {seconds:5.2f} s, {times:6.1f} times the memory of inputs and outputs")
