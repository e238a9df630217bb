"""Inputs and arguments as they are written on the command line."""

from __future__ import annotations

import ast
import math
import re
from typing import Any

import torch

from gradsmith.check.report._plain import clean
from gradsmith.errors import UsageError

__all__ = ["read_argument", "read_device", "read_input"]

_FORM = "[name=]SIZES[:DTYPE][:LOW..HIGH], such as 3x4, scalar, x=3x4:float64, 3x4:0.1..2 or 5:int64:0..9"
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint8,
        torch.bool,
    )
}
_SHORT = {"half": "float16", "float": "float32", "double": "float64", "int": "int64", "long": "int64"}
_MOST_ELEMENTS = 10**8


def read_input(
    text: str, generator: torch.Generator | None = None, device: str | torch.device = "cpu"
) -> tuple[str, torch.Tensor]:
    """The name (or "") and the tensor that `text` describes: ``[name=]SIZES[:DTYPE][:LOW..HIGH]``.

    Without a dtype it is float32; without a range, standard normal. Within a range it is uniform, both ends included
    for whole numbers, which need a range. Floating point and complex tensors require grad.

    Raises:
        UsageError: it cannot be read.
    """
    name, equals, rest = text.rpartition("=")
    if equals and not name.strip().isidentifier():
        raise _refused(text, f"{_quote(name)} is not a name")
    sizes, *more = (part.strip() for part in rest.split(":"))
    limits = more.pop() if more and ".." in more[-1] else ""
    word = more.pop() if more else "float32"
    if more:
        raise _refused(text, "there are too many colons")
    word = word.removeprefix("torch.")
    dtype = _DTYPES.get(_SHORT.get(word, word))
    if dtype is None:
        raise _refused(text, f"{_quote(word)} is no dtype that can be made up; there are {', '.join(_DTYPES)}")
    made = _make(text, _sizes(text, sizes), dtype, limits, generator)
    made = made.to(device)
    return name.strip(), made.requires_grad_(dtype.is_floating_point or dtype.is_complex)


def _sizes(text: str, sizes: str) -> list[int]:
    if sizes in ("scalar", "()"):
        return []
    if not re.fullmatch(r"\d{1,12}(x\d{1,12})*", sizes, re.ASCII):
        raise _refused(text, f"{_quote(sizes)} are no sizes")
    found = [int(size) for size in sizes.split("x")]
    if math.prod(found) > _MOST_ELEMENTS:
        raise _refused(text, f"{sizes} is more than {_MOST_ELEMENTS} elements")
    return found


def _make(
    text: str, sizes: list[int], dtype: torch.dtype, limits: str, generator: torch.Generator | None
) -> torch.Tensor:
    if dtype == torch.bool:
        if limits:
            raise _refused(text, "bool takes no range")
        return torch.randint(0, 2, sizes, generator=generator).bool()
    if dtype.is_floating_point or dtype.is_complex:
        if not limits:
            wide = torch.complex128 if dtype.is_complex else torch.float64
            return torch.randn(sizes, generator=generator, dtype=wide).to(dtype)
        if dtype.is_complex:
            raise _refused(text, "complex numbers take no range")
        low, high = _limits(text, limits, float)
        share = torch.rand(sizes, generator=generator, dtype=torch.float64)
        made = ((1 - share) * low + share * high).to(dtype)
        if not bool(torch.isfinite(made).all()):
            raise _refused(text, f"{_quote(limits)} is outside the range of {_name(dtype)}")
        return made
    if not limits:
        raise _refused(text, f"{_name(dtype)} needs a range, as in {text.strip()}:0..9")
    low, high = _limits(text, limits, int)
    if low < torch.iinfo(dtype).min or high > min(torch.iinfo(dtype).max, 2**63 - 2):
        raise _refused(text, f"{_quote(limits)} is outside the range of {_name(dtype)}")
    return torch.randint(int(low), int(high) + 1, sizes, generator=generator, dtype=dtype)


def _limits(text: str, limits: str, kind: type[int] | type[float]) -> tuple[float, float]:
    low, _, high = limits.partition("..")
    try:
        found = kind(low), kind(high)
    except ValueError:
        raise _refused(text, f"{_quote(limits)} is no range of {kind.__name__}s") from None
    if not all(map(math.isfinite, found)) or found[0] > found[1]:
        raise _refused(text, f"{_quote(limits)} is no range from a finite number to a larger one")
    return found


def _refused(text: str, why: str) -> UsageError:
    return UsageError(f"input {_quote(text)}: {why}; expected {_FORM}")


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def read_argument(text: str) -> tuple[str, Any]:
    """The name and the value that ``name=value`` gives: a Python literal, a torch dtype, or a word kept as a string.

    Raises:
        UsageError: it cannot be read.
    """
    name, equals, value = text.partition("=")
    name, value = name.strip(), value.strip()
    if not equals or not name.isidentifier():
        raise UsageError(f"argument {_quote(text)}: expected name=value, such as eps=1e-5 or reduction=none")
    if value.lstrip("+-") in ("inf", "nan"):
        return name, float(value)
    if isinstance(dtype := getattr(torch, value.removeprefix("torch."), None), torch.dtype) and "." in value:
        return name, dtype
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        if re.fullmatch(r"[^\W\d][\w.+/-]*", value):
            return name, value
    raise UsageError(f"argument {_quote(text)}: {_quote(value)} is neither a Python literal nor a word")


def read_device(text: str) -> torch.device:
    """The device of that name, once a tensor has been put there.

    Raises:
        UsageError: there is none.
    """
    try:
        device = torch.device(text)
        torch.zeros(1, device=device).add(1)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = next(iter(clean(error).splitlines()), "") or type(error).__name__
        raise UsageError(f"device {_quote(text)} cannot be used: {reason}") from None
    return device


def _quote(text: str) -> str:
    quoted = f"'{clean(text)}'"
    return quoted if len(quoted) <= 80 else f"{quoted[:60]}...'"
