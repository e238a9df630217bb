"""Getting out of a loop that catches everything: `while True: try: ... except: pass`."""

from __future__ import annotations

import dis
import sys
from types import FrameType
from typing import Any

__all__ = ["break_out"]


def break_out(frame: FrameType | None, error: type[BaseException], handled: BaseException | None) -> None:
    """Raise `error` as soon as code that runs now, or what called it, is at an instruction outside of every `try`.

    Such an instruction exists in every loop: the jump back to its beginning. It is waited for by tracing. In an
    `except` clause, where another exception than `handled` is being handled, Python could not put that one away.
    """

    def trace(traced: FrameType, event: str, argument: Any) -> Any:
        if sys.exc_info()[1] is handled and not _within_try(traced):
            raise error
        return trace

    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] != "gradsmith":
        frame.f_trace, frame.f_trace_opcodes = trace, True
        frame = frame.f_back
    sys.settrace(trace)


def _within_try(frame: FrameType) -> bool:
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] == "PUSH_EXC_INFO":
        return True  # the first of an `except` clause
    entries = getattr(dis.Bytecode(frame.f_code), "exception_entries", ())
    return any(entry.start <= frame.f_lasti < entry.end and not entry.lasti for entry in entries)
