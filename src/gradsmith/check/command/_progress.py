"""A bar on the terminal for a check that takes more than a second."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

__all__ = ["ProgressBar"]

_PATIENCE = 1.0  # seconds


class ProgressBar:
    """To be called with what is done, what there is in all, and what is being done now.

    It writes to a copy of stderr, so what is done about stderr meanwhile does not touch it, and starts no thread.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stream: TextIO | None = None
        self._bar: Progress | None = None
        if sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            with contextlib.suppress(OSError, ValueError):
                self._stream = os.fdopen(os.dup(sys.stderr.fileno()), "w", encoding="utf-8", errors="replace")

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show how far the work is."""
        if self._stream is None or (self._bar is None and time.monotonic() - self._began < _PATIENCE):
            return
        if self._bar is None:
            self._bar = _bar(self._stream)
            self._bar.start()
            self._bar.add_task("")
        (task,) = self._bar.task_ids
        self._bar.update(task, completed=done, total=total, description=what[:40], refresh=True)

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._stream is not None:
            self._stream.close()


def _bar(stream: TextIO) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    return Progress(
        BarColumn(20),
        MofNCompleteColumn(),
        TextColumn("{task.description}", markup=False),
        console=Console(file=stream, emoji=False, highlight=False),
        transient=True,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
    )
