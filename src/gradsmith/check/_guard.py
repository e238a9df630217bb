"""Running code that may do anything: its time is bounded, its output kept apart, global state put back."""

from __future__ import annotations

import contextlib
import ctypes
import io
import logging
import random
import signal
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from gradsmith.check._escape import break_out
from gradsmith.check._globals import GlobalState, ProcessState

__all__ = [
    "Clock",
    "GlobalState",
    "Noise",
    "OvertimeError",
    "one_at_a_time",
    "plain_surroundings",
    "quiet",
    "seed_everything",
    "text_of",
]


class OvertimeError(BaseException):
    """Raised inside the checked code when its time is up; no `except Exception` holds it up."""


_LONGEST = 1e6  # seconds; the system's timers overflow somewhere beyond


class Clock:
    """Bounds the time of the whole check and of each call in it.

    In the main thread an interval timer interrupts even a sleep; elsewhere a second thread raises the error at the next
    Python instruction. Code that never returns to Python is not stopped by either.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.end = time.monotonic() + timeout

    @property
    def left(self) -> float:
        return self.end - time.monotonic()

    @contextlib.contextmanager
    def limit(self, seconds: float) -> Iterator[None]:
        """Raise `OvertimeError` in the body when it takes longer than this, or longer than what is left."""
        seconds = max(min(seconds, self.left, _LONGEST), 0.01)
        in_main = threading.current_thread() is threading.main_thread()
        with self._alarm(seconds) if in_main and hasattr(signal, "setitimer") else _watched(seconds):
            yield

    def let_others_ring(self) -> None:
        """Wait for someone else's timer that is about to ring: each call puts it off to its end."""
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "getitimer"):
            left = signal.getitimer(signal.ITIMER_REAL)[0]
            if 0 < left < 0.002:
                time.sleep(0.003)

    @contextlib.contextmanager
    def _alarm(self, seconds: float) -> Iterator[None]:
        over, rings, tracing, handled = False, 0, sys.gettrace(), sys.exc_info()[1]

        def ring(number: int, frame: Any) -> None:
            nonlocal rings
            if over:
                return
            rings += 1
            signal.setitimer(signal.ITIMER_REAL, 1.0 if rings < 3 else 0.1)  # again, if someone swallows it
            if rings > 1:
                break_out(frame, OvertimeError, handled)
            raise OvertimeError

        before, started = signal.signal(signal.SIGALRM, ring), time.monotonic()
        outer = signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            try:
                yield
            finally:
                over = True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL if before is None else before)
            if rings > 1:
                sys.settrace(tracing)
            if outer[0]:  # someone else's timer, such as that of a test runner, goes on
                signal.setitimer(signal.ITIMER_REAL, max(outer[0] - (time.monotonic() - started), 0.001), outer[1])


class _Taken(BaseException):
    """See `_interrupt`."""


def _interrupt(thread: ctypes.c_ulong, own: ctypes.c_ulong) -> None:
    """Raise the error in another thread when it runs Python again.

    While it sleeps, Python keeps a mark for all threads, on which one with a trace function turns round and round for
    ever (3.11). The mark goes when any thread takes such an error: so this one raises and takes one of its own.
    """
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(OvertimeError))
    with contextlib.suppress(_Taken):
        ctypes.pythonapi.PyThreadState_SetAsyncExc(own, ctypes.py_object(_Taken))
        for _ in range(10_000):
            pass


@contextlib.contextmanager
def _watched(seconds: float) -> Iterator[None]:
    caller, done = ctypes.c_ulong(threading.get_ident()), threading.Event()

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            _interrupt(caller, ctypes.c_ulong(threading.get_ident()))
            wait = 1.0

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        try:
            yield
        finally:
            done.set()
    finally:
        with contextlib.suppress(OvertimeError):  # one that comes late must not come later still
            watcher.join()
            for _ in range(100):
                pass


class RandomState:
    """The random number generators of torch, Python and, where it is used, NumPy."""

    def __init__(self) -> None:
        self.torch = torch.get_rng_state()
        self.python = random.getstate()
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if numpy is not None else None

    def words(self) -> dict[str, str]:
        """The states in a form that can be compared."""
        found = {"torch": str(hash(bytes(self.torch.tolist())))}
        found["random"] = str(hash(self.python))
        if self.numpy is not None:
            found["numpy"] = str(hash((self.numpy[1].tobytes(), self.numpy[2])))
        return found

    def restore(self) -> None:
        torch.set_rng_state(self.torch)
        random.setstate(self.python)
        if self.numpy is not None:
            sys.modules["numpy"].random.set_state(self.numpy)


def seed_everything(seed: int) -> None:
    """The same random numbers for torch, Python and, where it is used, NumPy."""
    torch.default_generator.manual_seed(seed)  # torch.manual_seed walks the stack for devices that are not there
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


@dataclass
class Noise:
    """What the checked code said while it ran."""

    printed: int = 0
    warnings: list[str] = field(default_factory=list)
    changes: dict[str, tuple[str, str]] = field(default_factory=dict)  # settings of the process


@contextlib.contextmanager
def quiet() -> Iterator[Noise]:
    """Keep what the body prints, warns and logs away from the user's terminal; put global state back at the end."""
    noise, out = Noise(), _Counter()
    random_state, state, process = RandomState(), GlobalState(), ProcessState()
    timer, handlers = _timer(), list(logging.getLogger().handlers)
    loggers = [logging.getLogger(name) for name in ("torch", "torch._dynamo", "torch._inductor", "torch.fx")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
            warnings.catch_warnings(record=True) as w,
        ):
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"torch(\.|$)")
            warnings.filterwarnings("ignore", message=r".*torch\.jit\.script.* is deprecated")
            yield noise
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
        noise.changes = {**process.changed(), **state.changed()}
        random_state.restore()
        logging.getLogger().handlers[:] = handlers  # a first `logging.error` adds one
        if not timer and _timer():
            signal.setitimer(signal.ITIMER_REAL, 0)
        noise.printed = out.lines
        noise.warnings = list(dict.fromkeys(_warning(x) for x in w))[:10]


_turn = threading.RLock()


@contextlib.contextmanager
def one_at_a_time(timeout: float) -> Iterator[None]:
    """Checks in several threads follow each other: random numbers, output and settings belong to the process.

    One that waits for longer than this goes ahead: it may run inside of the one it waits for.
    """
    mine = _turn.acquire(timeout=min(timeout, _LONGEST))
    try:
        yield
    finally:
        if mine:
            _turn.release()


@contextlib.contextmanager
def plain_surroundings(device: torch.device) -> Iterator[None]:
    """Without the autocast the caller may be in, nor a default device where the inputs are not."""
    default = torch.get_default_device()
    with contextlib.ExitStack() as stack:
        for kind in {"cpu", device.type}:
            stack.callback(torch.set_autocast_enabled, kind, torch.is_autocast_enabled(kind))
            torch.set_autocast_enabled(kind, False)
        if default.type not in ("cpu", device.type):
            stack.enter_context(device)
        yield


def _timer() -> float:
    return signal.getitimer(signal.ITIMER_REAL)[0] if hasattr(signal, "getitimer") else 0.0


def _warning(caught: warnings.WarningMessage) -> str:
    return f"{caught.category.__name__}: {text_of(caught.message)}".splitlines()[0]


def text_of(error: object) -> str:
    """What an exception says, even where its `__str__` is broken."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001
        return "(its text cannot be had: __str__ raises)"


class _Counter(io.TextIOBase):
    """Counts lines and forgets them."""

    lines = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.lines += text.count("\n")
        return len(text)
