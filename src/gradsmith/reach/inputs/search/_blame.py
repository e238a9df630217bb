"""Which arguments an error is about: those named by the expression that raised it."""

from __future__ import annotations

import itertools
import linecache
import re
from collections.abc import Iterator, Sequence
from types import FrameType, TracebackType
from typing import Any

import torch

__all__ = ["blamed"]

_TELLING = (torch.Tensor, str, list, dict)  # objects that are met again only where they were passed on


def blamed(error: BaseException, names: Sequence[str], args: Sequence[Any], file: str) -> tuple[int, ...]:
    """The places of the arguments that the failing expression speaks of, in the innermost frame that speaks of any.

    Args:
        error: With its traceback.
        names: Of the parameters, as they are called in `file`.
        args: The very objects that were passed.
        file: Where the function is defined.
    """
    for frame, words in reversed(list(_expressions(error.__traceback__))):
        known = names if frame.f_code.co_filename == file else ()
        if found := tuple(i for i, arg in enumerate(args) if _speaks_of(arg, known[i : i + 1], frame, words)):
            return found
    return ()


def _speaks_of(arg: Any, name: Sequence[str], frame: FrameType, words: set[str]) -> bool:
    if name and name[0] in words:
        return True
    telling = isinstance(arg, _TELLING) or callable(arg)
    return telling and any(frame.f_locals.get(word) is arg for word in words)


def _expressions(trace: TracebackType | None) -> Iterator[tuple[FrameType, set[str]]]:
    """Each frame of a traceback with the names in the expression it was at."""
    while trace is not None:
        code = trace.tb_frame.f_code
        first, last, left, right = next(itertools.islice(code.co_positions(), trace.tb_lasti // 2, None), (None,) * 4)
        if first is not None and last is not None and left is not None and right is not None:
            lines = [linecache.getline(code.co_filename, n).encode() for n in range(first, last + 1)]
            lines[-1] = lines[-1][:right]
            lines[0] = lines[0][left:]
            text = b"".join(lines).decode(errors="replace")
            yield trace.tb_frame, set(re.findall(r"[A-Za-z_]\w*", text))
        trace = trace.tb_next
