"""Cases that were written, run: the files that hold them, the functions that make them, what they call."""

from __future__ import annotations

import contextlib
import difflib
import importlib.util
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gradsmith.errors import UsageError
from gradsmith.reach._found import Package
from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.cases._write import REGISTERED, Case
from gradsmith.reach.inputs.record import Recorded, recording

__all__ = ["NAME", "Cases", "load_cases"]

NAME = "gradsmith_cases.py"


class Cases:
    """All cases that are known in this process: those of the files, and those that stand beside what they are for.

    Attributes:
        errors: Files that did not run to their end, and why.
    """

    def __init__(self, errors: dict[str, str]) -> None:
        self.errors = errors
        self._made: dict[int, tuple[list[Call], Recorded, str]] = {}

    def calls_for(self, name: str, thing: Any = None) -> tuple[list[Call], str]:
        """The cases of one function, and why some of them could not be made; empty where there are none.

        Args:
            name: As `Found.id`.
            thing: The function itself, where it can be had.
        """
        calls: list[Call] = []
        troubles: list[str] = []
        for case in list(REGISTERED.values()):
            whatever = case.subject.whatever_is_called
            if not whatever and not case.subject.means(name, thing):
                continue
            given, recorded, trouble = self._run(case)
            met = recorded.calls_for(name)
            calls += [self._told(call, case) for call in (given or met)]
            if not whatever:
                if not given and not met and not trouble:
                    reason = recorded.unsaved.get(name)
                    trouble = reason or "it yields no case, and nothing it runs calls what it is for"
                troubles += [f"the case at {case.where}: {trouble}"] if trouble else []
        return calls, "; ".join(troubles)

    def unmatched(self, names: Iterable[str]) -> list[str]:
        """Cases that are for nothing among `names`, each with what may have been meant."""
        known, said = list(names), []
        for case in REGISTERED.values():
            if case.subject.whatever_is_called or case.subject.thing is not None or case.subject.name in known:
                continue
            close = difflib.get_close_matches(case.subject.name, known, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            said.append(f"the case at {case.where} is for {case.subject.name!r}, which was not found{meant}")
        return said

    def broken(self) -> list[str]:
        """Cases for whatever is called that did not run to their end; those of one function tell it there."""
        ran = [(case, self._made.get(id(case))) for case in REGISTERED.values() if case.subject.whatever_is_called]
        return [f"the case at {case.where}: {made[2]}" for case, made in ran if made is not None and made[2]]

    @staticmethod
    def _told(call: Call, case: Case) -> Call:
        return replace(call, source="case", where=case.where, gradient_of=case.gradient_of, waive=case.waive)

    def _run(self, case: Case) -> tuple[list[Call], Recorded, str]:
        """What a function of cases yields, what was called while it ran, and what went wrong; it runs once."""
        if id(case) not in self._made:
            given: list[Call] = []
            trouble = ""
            with recording(f"the case at {case.where}") as recorded, torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                try:
                    for made in _cases_in(case.maker()):
                        given.append(_call(made))  # noqa: PERF401  (those before an error count)
                except (Exception, SystemExit) as error:  # noqa: BLE001  (it is the author's code)
                    trouble = _told(error)
            self._made[id(case)] = given, recorded, trouble
        return self._made[id(case)]


def _cases_in(result: Any) -> Iterator[Any]:
    """One by one: what was yielded, returned in a list, or returned alone."""
    if result is None:
        return
    if isinstance(result, (tuple, torch.Tensor, Call)):
        yield result
    elif isinstance(result, list) or hasattr(result, "__next__"):
        yield from result
    else:
        yield _call(result)


def _call(made: Any) -> Call:
    if isinstance(made, Call):
        return made
    if isinstance(made, torch.Tensor):
        return Call((made,), source="case")
    if isinstance(made, tuple):
        return Call(tuple(made), source="case")
    raise UsageError(
        f"got {type(made).__name__} as a case; expected a tuple of arguments, a tensor, or gradsmith.case(...)"
    )


def _told(error: BaseException) -> str:
    text = " ".join(str(error).split())[:300]
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    at = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
    return (text if isinstance(error, UsageError) else f"{type(error).__name__}: {text}") + at


# --- files -------------------------------------------------------------------------------------------


def load_cases(package: Package | None = None, files: Iterable[str] = ()) -> Cases:
    """Run the files of cases that belong to a package, and those that are named.

    The first are called `gradsmith_cases.py` and lie in the current folder, in that of the target, or at its root.

    Raises:
        UsageError: a named file is not there.
    """
    named = [Path(file) for file in files]
    for path in named:
        if not path.is_file():
            raise UsageError(f"--cases: there is no file {str(path)!r}; expected Python that uses gradsmith.cases")
    folders = [Path.cwd()]
    if package is not None:
        target = Path(package.target)
        folders += [target, target.parent] if target.exists() else []
        folders += [Path(folder) for folder in (package.root, *package.search) if folder]
    beside = [folder / NAME for folder in folders]
    errors: dict[str, str] = {}
    for path in dict.fromkeys(path.resolve() for path in (*named, *beside) if path.is_file()):
        if why := _execute(path):
            errors[str(path)] = why
    return Cases(errors)


def _execute(path: Path) -> str:
    """Run a file, once in this process; why it did not come to its end."""
    name = "gradsmith_cases_" + re.sub(r"\W", "_", str(path))
    if name in sys.modules:
        return ""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        return "it is no Python file"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    if str(path.parent) not in sys.path:
        sys.path.append(str(path.parent))  # helpers beside it, also when its functions run later
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001  (it is the author's code)
        with contextlib.suppress(KeyError):
            del sys.modules[name]
        return _told(error).replace(os.getcwd() + os.sep, "")
    return ""
