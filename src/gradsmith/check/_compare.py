"""Two tensors side by side, and an exception, as plain data."""

from __future__ import annotations

import linecache
import math
import os
import traceback
from typing import Any

import torch

from gradsmith.check._guard import OvertimeError, text_of
from gradsmith.check._observation import Comparison, Failure

__all__ = ["CHUNK", "compare", "failure_of", "inner", "numbers", "numbers_of"]

_MOST = 512  # elements of a tensor that are written down
CHUNK = 1 << 18  # elements taken to float64 at a time


def compare(
    name: str,
    got: torch.Tensor | None,
    expected: torch.Tensor | None,
    *,
    tolerance: float | torch.Tensor = 0.0,
    relative: float = 1e-7,
) -> Comparison:
    """What differs between two tensors of one shape; None stands for zeros.

    Args:
        name: What is compared, such as the name of an input.
        got: What the subject gave.
        expected: What is right.
        tolerance: Absolute difference that is allowed, for all elements or for each.
        relative: Allowed difference as a share of the largest expected magnitude.
    """
    if got is None and expected is None:
        return {**_EMPTY, "name": name}
    missing = got is None
    got = torch.zeros_like(expected) if got is None else got.detach()  # type: ignore[arg-type]
    expected = torch.zeros_like(got) if expected is None else expected.detach()
    base: Comparison = {
        **_EMPTY,
        "name": name,
        "shape": list(expected.shape),
        "dtype": str(got.dtype).removeprefix("torch."),
        "missing": missing,
    }
    if got.shape != expected.shape:
        return {**base, "error": math.inf, "got_shape": list(got.shape), "tolerance": 0.0}
    got, expected = got.reshape(-1), expected.reshape(-1)
    if expected.numel() == 0:
        return base
    scale = max(_largest(_wide(part)) for part in expected.split(CHUNK))
    worst, place, error, limit, differ = -math.inf, 0, 0.0, 0.0, 0
    for k, (one, other) in enumerate(zip(got.split(CHUNK), expected.split(CHUNK), strict=True)):
        a, b = _wide(one), _wide(other)
        allowed = torch.full(b.shape, relative * scale, dtype=torch.float64)
        allowed += tolerance if isinstance(tolerance, float) else tolerance.reshape(-1)[k * CHUNK :][: len(b)]
        difference = torch.nan_to_num((a - b).abs(), nan=math.inf, posinf=math.inf)
        difference[(a == b) | (a.isnan() & b.isnan())] = 0.0
        excess = difference - allowed
        differ += int((excess > 0).sum())
        here = int(excess.argmax())
        if float(excess[here]) > worst:
            worst, place = float(excess[here]), k * CHUNK + here
            error, limit = float(difference[here]), float(allowed[here])
    return {
        **base,
        "error": error,
        "tolerance": limit,
        "at": _index(place, torch.Size(base["shape"])),
        "got_at": _number(_wide(got[place])),
        "expected_at": _number(_wide(expected[place])),
        "scale": scale,
        "differ": differ,
        **numbers_of(got, expected),
    }


_EMPTY: Comparison = {
    "name": "",
    "shape": [],
    "dtype": "",
    "missing": False,
    "error": 0.0,
    "tolerance": 0.0,
    "at": [],
    "got_at": 0.0,
    "expected_at": 0.0,
    "scale": 0.0,
    "differ": 0,
    "got": [],
    "expected": [],
    "places": None,
}


def inner(a: torch.Tensor | None, b: torch.Tensor | None) -> float:
    """The real inner product, which for complex tensors is the one gradients are defined by."""
    if a is None or b is None or a.numel() == 0:
        return 0.0
    wide = torch.complex128 if a.is_complex() or b.is_complex() else torch.float64
    a, b = a.detach().reshape(-1), b.detach().reshape(-1)
    total = 0.0
    for start in range(0, a.numel(), CHUNK):
        end = start + CHUNK
        total += float((a[start:end].to(wide).conj() * b[start:end].to(wide)).sum().real)
    return total


def numbers_of(got: torch.Tensor, expected: torch.Tensor) -> dict[str, Any]:
    """The elements of both, or of evenly spread places where there are many."""
    if got.numel() <= _MOST:
        return {"got": numbers(got), "expected": numbers(expected), "places": None}
    places = torch.linspace(0, got.numel() - 1, _MOST, dtype=torch.float64).round().long()
    return {"got": numbers(got[places]), "expected": numbers(expected[places]), "places": places.tolist()}


def numbers(tensor: torch.Tensor) -> list[Any]:
    """The elements, flat; a complex number as its real and imaginary part."""
    flat = tensor.detach().reshape(-1)
    if flat.is_complex():
        return [[z.real, z.imag] for z in flat.tolist()]
    return [float(v) for v in flat.tolist()]


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach().to("cpu")
    return flat.to(torch.complex128) if flat.is_complex() else flat.to(torch.float64)


def _largest(flat: torch.Tensor) -> float:
    finite = flat[torch.isfinite(flat)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _number(value: torch.Tensor) -> Any:
    return [float(value.real), float(value.imag)] if value.is_complex() else float(value)


def _index(place: int, shape: torch.Size) -> list[int]:
    index = []
    for size in reversed(shape):
        index.append(place % size)
        place //= size
    return index[::-1]


def failure_of(error: BaseException, stage: str) -> Failure:
    """An exception as plain data: what it is, and where in the author's code it came up."""
    text = text_of(error).strip().splitlines() or [""]
    where, line = _place(error)
    kind = "hang" if isinstance(error, OvertimeError) else type(error).__name__
    return {"stage": stage, "type": kind, "text": text[0].split(". Hint: ")[0][:300], "where": where, "line": line}


def _place(error: BaseException) -> tuple[str, str]:
    """The innermost line that belongs neither to torch nor to gradsmith."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    theirs = os.path.dirname(os.path.abspath(torch.__file__))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = os.path.abspath(frame.filename)
        if not path.startswith((ours + os.sep, theirs + os.sep)) or f"{os.sep}learn{os.sep}" in path:
            number = frame.lineno or 0
            return f"{_short(frame.filename)}:{number} in {frame.name}", linecache.getline(
                frame.filename, number
            ).strip()
    return "", ""


def _short(path: str) -> str:
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith("..") else relative
