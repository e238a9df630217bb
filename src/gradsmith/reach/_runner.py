"""A child process that does what is dangerous: it imports the package, and runs its functions.

Whatever happens there, to end the process, to hang, to want all memory, to print without end, costs one function: the
child is ended and another takes its place. What goes between the two is plain data.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import sysconfig
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from gradsmith.errors import UsageError
from gradsmith.reach._found import Found, Package, Unread
from gradsmith.reach._options import Options
from gradsmith.reach._verdict import Kind, Verdict
from gradsmith.reach._work import serve

__all__ = ["Runner"]

_START = 120.0  # seconds for a child to import torch and say so, on a slow disk
_IMPORT = 90.0  # for one module to be imported, beyond what stops it from within
_MARGIN = 15.0  # beyond the time of a function, after which a child that does not answer is ended

_PYTHON = sysconfig.get_path("stdlib")
Told = Callable[[str], None]


class Runner:
    """Finds and judges the custom gradients of one target, in a child process that is started at first need.

    Args:
        target: A package, distribution, module, folder or file.
        options: How each function is checked.
    """

    def __init__(self, target: str, options: Options) -> None:
        self.target, self.options = target, options
        self.package: Package | None = None
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._crash = Path(tempfile.mkstemp(prefix="gradsmith-", suffix=".txt")[1])

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child."""
        self._end()
        self._crash.unlink(missing_ok=True)

    # --- what it does ------------------------------------------------------------------------------

    def find(self, told: Told = lambda text: None) -> Package:
        """What the target holds. A module that ends the process when it is imported is left out then.

        Raises:
            UsageError: there is no such target.
        """
        skip: dict[str, str] = {}
        while True:
            importing = ""

            def listen(text: str) -> None:
                nonlocal importing
                importing = text
                told(text)

            answer = self._ask(("find", self.target, tuple(skip), self.options), _IMPORT, listen)
            if isinstance(answer, Package):
                ended = [Unread(module, "", why) for module, why in skip.items()]
                found = tuple(
                    f if f.reachable or f.module not in skip else replace(f, why=skip[f.module]) for f in answer.found
                )
                self.package = replace(answer, found=found, unread=(*answer.unread, *ended))
                return self.package
            if isinstance(answer, UsageError):
                raise answer
            if not importing or importing in skip:
                raise UsageError(f"{self.target}: {_words(answer, _IMPORT)} while it was looked through")
            skip[importing] = f"importing it {_words(answer, _IMPORT)}"

    def use(self, package: Package) -> None:
        """Take what another runner found."""
        self.package = package

    def judge(self, found: Found, told: Told = lambda text: None) -> Verdict:
        """What comes of one function."""
        assert self.package is not None
        started, call = time.monotonic(), {"call": "", "pin": "", "source": ""}

        def listen(news: dict[str, str]) -> None:
            call.update(news)
            told(news["call"])

        limit = self.options.timeout + _MARGIN
        answer = self._ask(("judge", self.package, found, self.options), limit, listen)
        if isinstance(answer, Verdict):
            return answer
        kind = _kind(answer)
        seconds = time.monotonic() - started
        why = f"it {_words(answer, limit)}"
        return Verdict(found, kind, why, call["source"], call=call["call"], pin=call["pin"], seconds=seconds)

    # --- the child ---------------------------------------------------------------------------------

    def _ask(self, request: tuple[Any, ...], limit: float, listen: Callable[[Any], None]) -> Any:
        """Send a request; take news until the answer comes. Or a `_Lost`, when none does."""
        try:
            pipe = self._start()
            pipe.send(request)
            deadline = time.monotonic() + limit
            while pipe.poll(max(deadline - time.monotonic(), 0)):
                what, content = pipe.recv()
                if what == "answer":
                    return content
                listen(content)
                if request[0] == "find":  # each module has its own time
                    deadline = time.monotonic() + limit
        except (EOFError, OSError):
            return self._end()
        except BaseException:  # Ctrl-C above all
            self._end(hung=True)
            raise
        return self._end(hung=True)

    def _start(self) -> Connection:
        if self._pipe is not None:
            return self._pipe
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, str(self._crash)), daemon=True)
        self._process.start()
        theirs.close()
        if not self._pipe.poll(_START):
            raise OSError("the child did not start")
        self._pipe.recv()
        return self._pipe

    def _end(self, hung: bool = False) -> _Lost:
        """End the child, and say what it died of."""
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if process is None or pipe is None:
            return _Lost(None, "")
        pipe.close()
        process.join(0 if hung else 2)
        code = process.exitcode
        if code is None:
            process.kill()
            process.join(10)
        with contextlib.suppress(ValueError):
            process.close()
        return _Lost(None if hung else code, self._crash.read_text(errors="replace") if self._crash.exists() else "")


class _Lost:
    """A child that gave no answer: its exit code, None where it was ended for its time; and the stack it left."""

    def __init__(self, code: int | None, stack: str) -> None:
        self.code, self.stack = code, stack


def _kind(lost: _Lost) -> Kind:
    if lost.code is None:
        return "timed out"
    return "out of memory" if lost.code == -signal.SIGKILL else "crashed"


def _words(lost: _Lost, limit: float) -> str:
    if lost.code is None:
        return f"did not come back within {limit:.0f} s, and could not be interrupted"
    if lost.code == -signal.SIGKILL:
        return "was killed, as the system does when memory runs out"
    if lost.code < 0:
        return f"ends the process by {signal.Signals(-lost.code).name}{_where(lost.stack)}"
    last = lost.stack.strip().splitlines()[-1:]
    return f"ends the process with exit code {lost.code}" + "".join(f" ({line})" for line in last)


def _where(stack: str) -> str:
    """The innermost line of the stack that is neither torch's, nor Python's, nor ours."""
    for line in stack.splitlines():
        place = line.strip().removeprefix('File "')
        file, _, rest = place.partition('", line ')
        foreign = file.startswith(_PYTHON) and "site-packages" not in file
        if rest and not foreign and "/torch/" not in file and "/gradsmith/reach/" not in file:
            number, _, name = rest.partition(" in ")
            return f" at {file}:{number} in {name}"
    return ""
