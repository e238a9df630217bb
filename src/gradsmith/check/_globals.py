"""The settings of the process that checked code may leave changed, and how to put them back."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import torch

__all__ = ["GlobalState", "ProcessState"]

Settings = dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]]
_held: list[Any] = []  # inference mode lasts as long as the object that set it


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _back_to(folder: str | None) -> None:
    if folder is not None:
        with contextlib.suppress(OSError):
            os.chdir(folder)


def _default_device() -> Any:
    return torch.get_default_device()


def _put_device(before: torch.device) -> None:
    """Leave a device that was entered, or take back one that was set."""
    with contextlib.suppress(AssertionError):
        torch.set_default_device(None)
    for _ in range(8):
        now = torch.get_default_device()
        if now == before:
            return
        if now == torch.device("cpu"):
            break
        now.__exit__(None, None, None)
    torch.set_default_device(before)


def _put_inference_mode(value: bool) -> None:
    mode = torch.inference_mode(value)
    mode.__enter__()
    _held.append(mode)


def _put_garbage_collector(value: bool) -> None:
    (gc.enable if value else gc.disable)()


def _put_deterministic(value: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(value[0], warn_only=value[1])


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return (lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


# Cheap to read: looked at after every call. Inference mode comes before grad mode, which it changes too.
_SETTINGS: Settings = {
    "default dtype": (torch.get_default_dtype, torch.set_default_dtype),
    "inference mode": (torch.is_inference_mode_enabled, _put_inference_mode),
    "grad mode": (torch.is_grad_enabled, torch.set_grad_enabled),
    "deterministic algorithms": (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        _put_deterministic,
    ),
    "number of threads": (torch.get_num_threads, torch.set_num_threads),
    "CPU autocast": (
        lambda: torch.is_autocast_enabled("cpu"),
        lambda value: torch.set_autocast_enabled("cpu", value),
    ),
    "CUDA autocast": (
        lambda: torch.is_autocast_enabled("cuda"),
        lambda value: torch.set_autocast_enabled("cuda", value),
    ),
    "anomaly mode": (torch.is_anomaly_enabled, lambda value: torch.autograd.set_detect_anomaly(value)),
    "float32 matmul precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "default device": (_default_device, _put_device),
    "working directory": (_working_directory, _back_to),
    "recursion limit": (sys.getrecursionlimit, sys.setrecursionlimit),
    "garbage collector": (gc.isenabled, _put_garbage_collector),
    "sys.stdout": _attribute(sys, "stdout"),
    "sys.stderr": _attribute(sys, "stderr"),
}


# --- what takes longer to read: looked at once, after the whole check -----------------------------------

_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM", "SIGUSR1") if hasattr(signal, name)]
_LAZY = ("TORCH", "TRITON", "PYTORCH", "KMP_", "OMP_")  # variables that libraries set when they are first used


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(_LAZY)}


def _put_environment(before: dict[str, str]) -> None:
    for name in _environment().keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _put_handlers(before: list[Any]) -> None:
    if threading.current_thread() is threading.main_thread():
        for number, handler in zip(_SIGNALS, before, strict=True):
            if handler is not None:  # one that was not set from Python
                signal.signal(number, handler)


def _numpy_errors() -> dict[str, str] | None:
    numpy = sys.modules.get("numpy")
    return numpy.geterr() if numpy is not None else None


def _put_numpy_errors(before: dict[str, str] | None) -> None:
    if before is not None:
        sys.modules["numpy"].seterr(**before)


def _logging() -> tuple[int, int]:
    return logging.getLogger().level, logging.getLogger().manager.disable


def _put_logging(before: tuple[int, int]) -> None:
    logging.getLogger().setLevel(before[0])
    logging.disable(before[1])


def _put_path(before: list[str]) -> None:
    sys.path[:] = before


def _denormal() -> bool:
    """Whether numbers too small for the exponent are flushed to zero."""
    return float(torch.tensor(1e-310, dtype=torch.float64, device="cpu") * 1) == 0


_PROCESS: Settings = {
    "environment variables": (_environment, _put_environment),
    "signal handlers": (lambda: [signal.getsignal(number) for number in _SIGNALS], _put_handlers),
    "logging": (_logging, _put_logging),
    "sys.path": (lambda: list(sys.path), _put_path),
    "sys.excepthook": _attribute(sys, "excepthook"),
    "thread switch interval": (sys.getswitchinterval, sys.setswitchinterval),
    "NumPy's handling of errors": (_numpy_errors, _put_numpy_errors),
    "flushing of denormal numbers": (_denormal, torch.set_flush_denormal),
    "trace function": (sys.gettrace, sys.settrace),
    "profile function": (sys.getprofile, sys.setprofile),
}


class GlobalState:
    """Settings as they were, to compare with what a call leaves behind."""

    settings = _SETTINGS

    def __init__(self) -> None:
        self.values = {name: get() for name, (get, _) in self.settings.items()}

    def changed(self) -> dict[str, tuple[str, str]]:
        """What differs now, before and after, in words; and put it back."""
        found = {}
        for name, (get, put) in self.settings.items():
            before, now = self.values[name], get()
            if now is not before and now != before:
                found[name] = _words(before, now)
                put(before)
        return found


class ProcessState(GlobalState):
    """Settings that are compared once, after everything."""

    settings = _PROCESS


def _words(before: Any, now: Any) -> tuple[str, str]:
    """Both values in a few words; of dicts, the entries that differ."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = sorted(k for k in before.keys() | now.keys() if before.get(k) != now.get(k))
        return ", ".join(f"{k}={before.get(k)}" for k in keys), ", ".join(f"{k}={now.get(k)}" for k in keys)
    if isinstance(before, (list, tuple)) and isinstance(now, (list, tuple)) and len(before) == len(now):
        pairs = [(b, n) for b, n in zip(before, now, strict=True) if b != n]
        return ", ".join(_word(b) for b, _ in pairs), ", ".join(_word(n) for _, n in pairs)
    return _word(before), _word(now)


def _word(value: Any) -> str:
    plain = (str, int, float, type(None), torch.dtype, torch.device, signal.Handlers)
    if isinstance(value, (list, tuple)):
        return f"{len(value)} entries"
    return str(value)[:80] if isinstance(value, plain) else str(getattr(value, "__name__", type(value).__name__))
