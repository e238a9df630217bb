"""A package whose functions do what they should not; written to a folder by the tests, never imported here."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_package"]

_HEAD = """
import ctypes, os, sys, time
import torch
from torch.autograd import Function
"""

_FUNCTION = """

class {name}(Function):
    @staticmethod
    def forward(ctx, x):
        {forward}
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        {backward}
        return 2 * x * grad
"""

# A lock that is taken twice: no signal gets a thread out of it.
_DEADLOCK = (
    "lock = ctypes.create_string_buffer(64); take = ctypes.CDLL(None).pthread_mutex_lock; take(lock); take(lock)"
)

_HOSTILE = {
    "Right": ("pass", "pass"),
    "Segfault": ("pass", "ctypes.string_at(0)"),
    "Exits": ("os._exit(3)", "pass"),
    "Hangs": ("pass", _DEADLOCK),
    "Loops": ("pass", "while True: pass"),
    "Memory": ("big = torch.ones(10**12)", "pass"),
    "Prints": ('os.write(1, b"noise" * 10**6); print("noise" * 10**6)', 'os.write(2, b"noise" * 10**6)'),
    "Raises": ("pass", "raise KeyboardInterrupt"),
    "Writes": ("pass", "grad.mul_(2)"),
    "AlsoRight": ("pass", "pass"),
}


def write_package(folder: Path, *names: str) -> Path:
    """A package `hostile` with the functions named, or all; a second module of it ends the process at import."""
    package = folder / "hostile"
    package.mkdir()
    chosen = {name: _HOSTILE[name] for name in names} if names else _HOSTILE
    text = _HEAD + "".join(_FUNCTION.format(name=n, forward=f, backward=b) for n, (f, b) in chosen.items())
    (package / "__init__.py").write_text("")
    (package / "functions.py").write_text(text)
    if not names:
        (package / "ends.py").write_text(
            _HEAD
            + "import ctypes\nctypes.string_at(0)\n"
            + _FUNCTION.format(name="Never", forward="pass", backward="pass")
        )
        (package / "exits.py").write_text(
            _HEAD + "sys.exit('no GPU')\n" + _FUNCTION.format(name="Neither", forward="pass", backward="pass")
        )
    return package
