"""A call as it is written: for a report, and to be pinned in `gradsmith_cases.py`."""

from __future__ import annotations

import re
from typing import Any

import torch

from gradsmith.reach.inputs._call import Call

__all__ = ["describe", "pin"]

_MOST = 100  # characters of one argument


def describe(name: str, call: Call) -> str:
    """`Clip.apply(torch.randn(3, 4), 0.5)`, short enough to be read."""
    short = name.rpartition(".")[2]
    said = ", ".join(_said(text) for text in _written(call))
    return f"{short}({said})" if "::" in name else f"{short}.apply({said})"


def pin(found_id: str, call: Call) -> str:
    """Lines for `gradsmith_cases.py` that make the call; what cannot be written down is marked."""
    written = _written(call)
    positional = written[: len(call.args)]
    if call.kwargs:
        made = f"gs.case({', '.join(written)})"
    else:
        made = ", ".join(positional) + ("," if len(positional) == 1 else "")
    lines = [f'@gs.cases("{found_id}")', "def _():", f"    return {made}"]
    if any("..." in text for text in written):
        lines.insert(2, "    # put in what stands for ...: an object that only the package itself can make")
    head = ["import importlib", ""] if any("importlib." in text for text in written) else []
    return "\n".join(head + lines)


def _written(call: Call) -> list[str]:
    if call.written:
        return list(call.written)
    return [*map(_code, call.args), *(f"{k}={_code(v)}" for k, v in call.kwargs.items())]


def _code(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, (bool, int, float, str, type(None), torch.dtype)):
        return repr(value)
    if isinstance(value, (list, tuple)) and len(value) < 20:
        inner = ", ".join(map(_code, value))
        return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
    return f"...  ({type(value).__name__})".replace("  ", " ")


def _tensor(t: torch.Tensor) -> str:
    sizes = ", ".join(map(str, t.shape)) or "()"
    dtype = "" if t.dtype is torch.float32 else f", dtype={t.dtype}"
    if t.dtype is torch.bool:
        return f"torch.rand({sizes}) < 0.5"
    if not t.is_floating_point() and not t.is_complex():
        high = int(t.max()) + 1 if t.numel() else 1
        low = min(int(t.min()), 0) if t.numel() else 0
        return f"torch.randint({low}, {high}, {tuple(t.shape)}{dtype if t.dtype is not torch.int64 else ''})"
    return f"torch.randn({sizes}{dtype}{', requires_grad=True' if t.requires_grad else ''})"


def _said(text: str) -> str:
    text = re.sub(r'importlib\.import_module\("[\w.]+"\)\.', "", text)
    text = text.replace("torch.", "").replace(", requires_grad=True", "").replace(".requires_grad_()", "")
    return text if len(text) <= _MOST else f"{text[: _MOST - 4]} ..."
