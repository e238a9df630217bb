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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["Clock", "GlobalState", "Noise", "OvertimeError", "quiet", "seed_everything"]


class OvertimeError(BaseException):
    """Raised inside the checked code when its time is up; no `except Exception` holds it up."""


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
        seconds = max(min(seconds, self.left), 0.01)
        in_main = threading.current_thread() is threading.main_thread()
        with self._alarm(seconds) if in_main and hasattr(signal, "setitimer") else _watched(seconds):
            yield

    @contextlib.contextmanager
    def _alarm(self, seconds: float) -> Iterator[None]:
        def ring(number: int, frame: Any) -> None:
            signal.setitimer(signal.ITIMER_REAL, 1.0)  # again, if someone swallows it
            raise OvertimeError

        before, started = signal.signal(signal.SIGALRM, ring), time.monotonic()
        outer = signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            if outer[0]:  # someone else's timer, such as that of a test runner, goes on
                signal.setitimer(signal.ITIMER_REAL, max(outer[0] - (time.monotonic() - started), 0.001), outer[1])


@contextlib.contextmanager
def _watched(seconds: float) -> Iterator[None]:
    caller, done = threading.get_ident(), threading.Event()

    def watch() -> None:
        wait = seconds
        while not done.wait(wait):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(caller), ctypes.py_object(OvertimeError))
            wait = 1.0

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "deterministic algorithms": (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    "number of threads": (torch.get_num_threads, torch.set_num_threads),
    "CPU autocast": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda value: torch.set_autocast_enabled("cpu", value),
    ),
    "anomaly mode": (torch.is_anomaly_enabled, lambda value: torch.autograd.set_detect_anomaly(value)),
    "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "default device": (torch.get_default_device, lambda value: torch.set_default_device(value)),
    "working directory": (lambda: _os_getcwd(), lambda value: _os_chdir(value)),
}


def _os_getcwd() -> str | None:
    import os

    try:
        return os.getcwd()
    except OSError:
        return None


def _os_chdir(path: str | None) -> None:
    import os

    if path is not None:
        os.chdir(path)


class GlobalState:
    """The settings of the process that checked code might leave changed."""

    def __init__(self) -> None:
        self.values = {name: get() for name, (get, _) in _SETTINGS.items()}

    def changed(self) -> dict[str, tuple[str, str]]:
        """What differs now, before and after, in words; and put it back."""
        found = {}
        for name, (get, put) in _SETTINGS.items():
            before, now = self.values[name], get()
            if now != before:
                found[name] = (str(before), str(now))
                put(before)
        return found


class RandomState:
    """The random number generators of torch, Python and, where it is used, NumPy."""

    def __init__(self) -> None:
        self.torch = torch.get_rng_state()
        self.python = random.getstate()
        numpy = sys.modules.get("numpy")
        self.numpy = numpy.random.get_state() if numpy is not None else None  # type: ignore[attr-defined]

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
            sys.modules["numpy"].random.set_state(self.numpy)  # type: ignore[attr-defined]


def seed_everything(seed: int) -> None:
    """The same random numbers for torch, Python and, where it is used, NumPy."""
    torch.default_generator.manual_seed(seed)  # torch.manual_seed walks the stack for devices that are not there
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)  # type: ignore[attr-defined]


@dataclass
class Noise:
    """What the checked code said while it ran."""

    printed: int = 0
    warnings: list[str] = field(default_factory=list)


@contextlib.contextmanager
def quiet() -> Iterator[Noise]:
    """Keep what the body prints, warns and logs away from the user's terminal; put global state back at the end."""
    noise, out = Noise(), _Counter()
    random_state, state = RandomState(), GlobalState()
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
        state.changed()
        random_state.restore()
        noise.printed = out.lines
        noise.warnings = list(dict.fromkeys(f"{x.category.__name__}: {x.message}".splitlines()[0] for x in w))[:10]


class _Counter(io.TextIOBase):
    """Counts lines and forgets them."""

    lines = 0

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.lines += text.count("\n")
        return len(text)
