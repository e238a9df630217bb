"""A whole package checked: one function after the other, or several at once by pytest and its pytest-xdist."""

from __future__ import annotations

import contextlib
import fnmatch
import importlib.util
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gradsmith.errors import UsageError
from gradsmith.reach._found import Found, Package
from gradsmith.reach._options import Options
from gradsmith.reach._runner import Runner
from gradsmith.reach._verdict import Verdict
from gradsmith.reach._wire import read_verdict, write_package

__all__ = ["checkable", "find_package", "judge_all", "narrowed"]

Progress = Callable[[int, int, str], None]
PLUGIN = "gradsmith.pytest_plugin"


def find_package(target: str, options: Options, progress: Progress) -> Package:
    """What the target holds.

    Raises:
        UsageError: there is no such target.
    """
    with Runner(target, options) as runner:
        return runner.find(lambda module: progress(0, 0, f"importing {module}"))


def narrowed(package: Package, only: str = "", exclude: Sequence[str] = ()) -> Package:
    """The package with one function alone, or without those whose id, or part of it, fits a pattern.

    Raises:
        UsageError: there is no function of the name asked for.
    """
    found = [f for f in package.found if not any(_fits(f, pattern) for pattern in exclude)]
    left_out = len(package.found) - len(found)
    remarks = [f"exclude: nothing fits {p!r}" for p in exclude if not any(_fits(f, p) for f in package.found)]
    remarks += [f"exclude: {left_out} of {len(package.found)} functions are left out"] if left_out else []
    if only:
        chosen = [f for f in found if only in (f.name, f.id, f.name.rpartition(".")[2])]
        if not chosen:
            names = ", ".join(f.name for f in package.found[:20]) or "nothing that has a gradient of its own"
            raise UsageError(f"{only!r} is no custom gradient in {package.target!r}; it has {names}")
        found = chosen
    return replace(package, found=tuple(found), remarks=(*package.remarks, *remarks))


def _fits(found: Found, pattern: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for name in (found.id, found.name, found.module))


def checkable(package: Package) -> list[Found]:
    """Those that define a gradient of their own."""
    return [f for f in package.found if not f.exempt]


def judge_all(package: Package, options: Options, jobs: int, progress: Progress) -> Iterator[Verdict]:
    """The verdict of each function, as it comes. Ctrl-C goes through, and ends what was started."""
    todo = checkable(package)
    if jobs == 1 or len(todo) < 2:
        yield from _one_by_one(package, todo, options, progress)
    else:
        yield from _by_pytest(package, todo, options, min(jobs, len(todo)), progress)


def _one_by_one(package: Package, todo: Sequence[Found], options: Options, progress: Progress) -> Iterator[Verdict]:
    with Runner(package.target, options) as runner:
        runner.use(package)
        for done, found in enumerate(todo):
            progress(done, len(todo), found.name)
            yield runner.judge(found)


def _by_pytest(
    package: Package, todo: Sequence[Found], options: Options, jobs: int, progress: Progress
) -> Iterator[Verdict]:
    """Let pytest run the items of the plugin with `-n`, and hear of each that is done."""
    if importlib.util.find_spec("xdist") is None or importlib.util.find_spec("pytest") is None:
        raise UsageError("--jobs: several at once are run by pytest; install it with: pip install 'gradsmith[pytest]'")
    import pytest

    with tempfile.TemporaryDirectory(prefix="gradsmith-") as folder:
        handed = Path(folder, "package.json")
        write_package(handed, package, options)
        listener = _Listener(len(todo), progress)
        arguments = ["-q", "-c", os.devnull, "--rootdir", folder, "--noconftest", "-p", "no:cacheprovider"]
        arguments += ["-p", "xdist.plugin", "-p", PLUGIN, "-n", str(jobs), "--max-worker-restart", "1000"]
        arguments += ["--gradsmith-results", folder, "--gradsmith-found", str(handed)]
        with _alone(), open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
            code = pytest.main(arguments, plugins=[listener])
        for place, found in enumerate(todo):
            with contextlib.suppress(FileNotFoundError):
                yield read_verdict(Path(folder), place)
                continue
            if code != pytest.ExitCode.INTERRUPTED:
                yield Verdict(found, "crashed", why=listener.lost.get(found.id, "the process it ran in ended"))
        if code == pytest.ExitCode.INTERRUPTED:
            raise KeyboardInterrupt


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Without the plugins and options the user has for tests of their own."""
    wanted = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Listener:
    """Hears of each item that is done."""

    def __init__(self, total: int, progress: Progress) -> None:
        self.total, self.progress = total, progress
        self.done = 0
        self.lost: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: object) -> None:
        when, name = getattr(report, "when", ""), str(getattr(report, "nodeid", "")).rpartition("::")[2]
        if when == "call" or (when == "setup" and not getattr(report, "passed", True)) or when == "???":
            self.done += 1
            self.progress(self.done, self.total, name)
        if when == "???":  # a worker that ended is reported so
            self.lost[name] = "the worker it ran in ended"
