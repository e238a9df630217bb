"""The calls a function can be checked with, best first: its author's cases, recorded calls, a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradsmith.errors import UsageError
from gradsmith.reach._found import Found, Package
from gradsmith.reach._options import Options
from gradsmith.reach.find import load
from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.cases import Cases, load_cases
from gradsmith.reach.inputs.record import Recorded, load_calls
from gradsmith.reach.inputs.search import SourceIndex, search

__all__ = ["Sources", "Tried", "completed", "files_of"]

CALLS = Path(".gradsmith", "calls")  # where `gradsmith record` writes
_MOST_FILES = 5000  # of a package, that are read for calls


@dataclass(frozen=True)
class Tried:
    """What one source gave.

    Args:
        subject: The object that was found; None where it cannot be had.
        calls: Calls to check.
        second: Another call that runs, of other shapes or values, where the calls are a guess.
        why: Why there is no call.
        tries: How many calls were tried.
    """

    subject: Any = None
    calls: tuple[Call, ...] = ()
    second: Call | None = None
    why: str = ""
    tries: int = 0


class Sources:
    """All that is known about how to call what a package holds. Read once, used for each function."""

    _last: tuple[Package, Options, Sources] | None = None

    def __init__(self, package: Package, options: Options) -> None:
        self.package, self.options = package, options
        self.index = SourceIndex(files_of(package))
        self.cases: Cases = load_cases(package, options.cases)
        self.recorded = recorded_calls(options)

    @classmethod
    def of(cls, package: Package, options: Options) -> Sources:
        if cls._last is None or cls._last[:2] != (package, options):
            cls._last = (package, options, cls(package, options))
        return cls._last[2]

    def groups(self, found: Found, seconds: float, told: Callable[[Call], None]) -> Iterator[Tried]:
        """Calls, source by source; a later one is asked for only where an earlier one led to nothing.

        `told` hears each call that the search makes.
        """
        subject, why = None, found.why
        if found.reachable:
            try:
                subject = load(found, self.package)
            except UsageError as error:
                why = str(error)
        calls, trouble = self.cases.calls_for(found.id, subject)
        if calls or trouble:
            yield Tried(subject, tuple(calls), why=trouble)
            return  # an author's case that does not work is to be mended, not passed over
        if self.recorded is not None:
            yield Tried(
                subject,
                tuple(self.recorded.calls_for(found.id, found.file)),
                why=self.recorded.unsaved.get(found.id, ""),
            )
        if subject is None:
            hint = "; record a call of it: gradsmith record -- python SCRIPT" if why.startswith("made inside") else ""
            yield Tried(why=why + hint)
            return
        result = search(subject, found.name, self.index, tries=self.options.tries, seconds=seconds, told=told)
        if result.call is not None:
            yield Tried(subject, (result.call,), result.second, tries=result.tries)
        elif result.broken is not None:
            yield Tried(subject, (result.broken,), tries=result.tries)
        else:
            yield Tried(subject, why=result.why, tries=result.tries)


def recorded_calls(options: Options) -> Recorded | None:
    """What was recorded, in the file that is named or where `gradsmith record` writes it."""
    place = Path(options.calls) if options.calls else CALLS
    return load_calls(place) if options.calls or place.is_file() else None


def completed(package: Package, options: Options) -> Package:
    """The package with functions that only a recording knows, made by calls in ways no reading sees; and with remarks
    on cases that are for nothing in it.

    Raises:
        UsageError: a file of cases does not run, or what was recorded cannot be read.
    """
    cases = load_cases(package, options.cases)
    if cases.errors:
        raise UsageError("; ".join(f"{file}: {why}" for file, why in cases.errors.items()))
    recorded, more = recorded_calls(options), []
    if recorded is not None:
        files, known = {f.file for f in package.found}, {f.id for f in package.found}
        places = {(f.file, f.name) for f in package.found}
        more = [f for f in recorded.ids() if f.file in files and f.id not in known and (f.file, f.name) not in places]
    found = (*package.found, *more)
    names = [package.name, *(f.module.partition(".")[0] for f in found), *(f.id for f in found)]
    return replace(package, found=found, remarks=tuple(cases.unmatched(names)))


def files_of(package: Package) -> list[str]:
    """The files of the packages that hold what was found: calls stand in other files than definitions."""
    files: dict[str, None] = {}
    for found in package.found:
        if not found.file:
            continue
        path = Path(found.file)
        depth = found.module.count(".") + (path.name == "__init__.py")
        top = path.parents[depth - 1] if depth else None
        if top is not None and (top / "__init__.py").exists():
            files.update((str(p), None) for p in sorted(top.rglob("*.py"))[:_MOST_FILES])
        files[found.file] = None
    return list(files)
