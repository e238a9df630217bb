"""What the child process does: find what a package holds, and judge one function of it after the other."""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable, Collection
from multiprocessing.connection import Connection
from typing import Any

from gradsmith.errors import UsageError
from gradsmith.reach._found import Found, Package
from gradsmith.reach._options import Options
from gradsmith.reach._verdict import Verdict

__all__ = ["serve"]


def serve(pipe: Connection, crash_file: str) -> None:
    """Answer requests until the other end is closed."""
    _silence()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to act on
    _end_with_parent()
    sys.argv = sys.argv[:1]  # what is imported may read it
    crash = open(crash_file, "w")  # noqa: SIM115  (open as long as the process lives)
    faulthandler.enable(crash, all_threads=False)
    try:
        _answer(pipe)
    except (EOFError, OSError):
        pass  # the other end is closed
    except BaseException:  # noqa: BLE001  (the last words, for whoever has lost this process)
        traceback.print_exc(file=crash)
        crash.flush()
        os._exit(1)
    os._exit(0)  # what the package registered to run at exit is nobody's concern


def _answer(pipe: Connection) -> None:
    import gradsmith.reach._judge  # noqa: F401  (torch is imported before the child says it is ready)

    def told(news: Any) -> None:
        pipe.send(("news", news))

    work: dict[str, Callable[..., Any]] = {
        "find": lambda target, skip, options: _find(target, skip, options, told),
        "judge": lambda package, found, options: _judge(package, found, options, told),
    }
    pipe.send(("ready", None))
    while True:
        request, *arguments = pipe.recv()
        gc.freeze()  # what is alive now is no leak of the next call, and need not be looked through for it
        pipe.send(("answer", work[request](*arguments)))


def _judge(package: Package, found: Found, options: Options, told: Callable[[Any], None]) -> Verdict:
    from gradsmith.reach._judge import judge

    try:
        return judge(package, found, options, told)
    except Exception as error:  # noqa: BLE001  (what the package's objects do to ours was not foreseen)
        return Verdict(found, "not exercised", f"it cannot be looked at: {type(error).__name__}: {error}"[:300])


def _find(target: str, skip: Collection[str], options: Options, told: Callable[[str], None]) -> Package | UsageError:
    from gradsmith.reach._sources import completed
    from gradsmith.reach.find import find

    try:
        return completed(find(target, progress=told, skip=skip), options)
    except UsageError as error:
        return error


def _silence() -> None:
    """Nothing that the package prints reaches the user's terminal, from below Python neither."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    sys.stdin, sys.stdout, sys.stderr = (open(os.devnull, mode) for mode in ("r", "w", "w"))  # noqa: SIM115


def _end_with_parent() -> None:
    """Even code that never returns must not outlive a parent that was killed; other systems have no such call."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # 1 is PR_SET_PDEATHSIG
