"""Record the calls of custom gradients while a program runs, to check them with what they really get."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gradsmith.errors import UsageError
from gradsmith.reach.inputs.record._calls import Recorded
from gradsmith.reach.inputs.record._pickle import Unsaved, require_cloudpickle
from gradsmith.reach.inputs.record._recorder import Recorder, start, stop

__all__ = ["record", "recording"]


@contextmanager
def record() -> Iterator[Recorded]:
    """Record how custom gradients are called by what runs inside.

    Of every `autograd.Function`, wherever it is made, and of every operator with a registered gradient, a few calls
    are kept: arguments as they were before the call, so that it can be made again, in another process too.

    Yields:
        The calls: iterate over them, `save(path)` them for `gradsmith check PACKAGE`, or `check()` them here.

    Raises:
        UsageError: cloudpickle, an extra, is not installed.

    Example:
        >>> import torch, gradsmith as gs
        >>> class Half(torch.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x, factor):
        ...         return x * factor
        ...     @staticmethod
        ...     def backward(ctx, grad):
        ...         return grad, None
        >>> with gs.record() as calls:
        ...     total = Half.apply(torch.ones(3, requires_grad=True), 0.5).sum()
        >>> [(call.in_words, call.args[1]) for call in calls]
        [('float32[3]*, 0.5', 0.5)]
    """
    try:
        require_cloudpickle()
    except Unsaved as error:
        raise UsageError(f"gradsmith.record: {error}") from None
    frame = sys._getframe(2)
    place = f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
    with recording(f"gradsmith.record() at {place}") as calls:
        yield calls


@contextmanager
def recording(command: str) -> Iterator[Recorded]:
    """`record`, with what is recorded in words; without cloudpickle it notes that nothing could be saved."""
    import gradsmith.declare  # noqa: F401  (so that what is declared inside is met)

    calls = Recorded(command=command)
    recorder = Recorder(calls.take)
    start(recorder)
    try:
        yield calls
    finally:
        stop(recorder)
