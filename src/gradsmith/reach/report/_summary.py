"""What came of all functions of a package, and the counts every format shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from gradsmith.check._finding import FAMILIES, Finding
from gradsmith.check.report._plain import clean, count
from gradsmith.reach._found import Found, Package
from gradsmith.reach._verdict import SOURCES, Verdict

__all__ = ["BROKEN", "STANDINGS", "PackageReport", "finding_of", "grouped", "letter", "standing", "title"]

BROKEN = ("crashed", "timed out", "out of memory")  # kinds of verdict where the check did not come to an end
STANDINGS = ("wrong", *BROKEN, "known", "right", "not exercised")  # worst first

_LETTERS = {"right": "+", "refused": "-", "wrong": "X"}


@dataclass(frozen=True)
class PackageReport:
    """All verdicts on a package. Plain data: nothing of the package lives on in it.

    Args:
        package: What was found.
        verdicts: One for each function that was reached, in the order of `package.found`.
        interrupted: Whether the user ended the run before all functions were reached.
        seconds: How long it took.
        remarks: What else the user should know, one sentence each: entries of a baseline that are no longer found,
            comments that suppress nothing.
    """

    package: Package
    verdicts: Sequence[Verdict]
    interrupted: bool = False
    seconds: float = 0.0
    remarks: Sequence[str] = ()

    @property
    def ok(self) -> bool:
        """No finding is open and each check came to its end. What could not be exercised is no failure."""
        return not self.interrupted and not any(v.open or v.kind in BROKEN for v in self.verdicts)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many functions stand how, for every one of `STANDINGS`."""
        seen = Counter(standing(v) for v in self.verdicts)
        return {name: seen[name] for name in STANDINGS}

    @cached_property
    def sources(self) -> dict[str, int]:
        """How many of the exercised functions had their inputs from where, for every one of `SOURCES`."""
        seen = Counter(v.source for v in self.exercised)
        return {name: seen[name] for name in SOURCES}

    @cached_property
    def families(self) -> dict[str, int]:
        """How many open findings are of which family, by the code of the family; families without any are left out."""
        seen = Counter(str(f["rule"])[:3] for v in self.verdicts for f in v.open)
        named = [family for family in FAMILIES if seen[family]]
        return {family: seen[family] for family in (*named, *sorted(seen.keys() - FAMILIES.keys()))}

    @cached_property
    def findings(self) -> int:
        """How many findings are open."""
        return sum(len(v.open) for v in self.verdicts)

    @cached_property
    def suppressed(self) -> int:
        """How many findings are known, from a baseline or from a comment in the source."""
        return sum(len(v.findings) for v in self.verdicts) - self.findings

    @cached_property
    def checkable(self) -> tuple[Found, ...]:
        """The functions with a gradient of their own."""
        return tuple(f for f in self.package.found if not f.exempt)

    @cached_property
    def exercised(self) -> tuple[Verdict, ...]:
        """The verdicts of checks that came to their end."""
        return tuple(v for v in self.verdicts if v.kind in ("right", "wrong"))

    @property
    def share(self) -> float:
        """The share of `checkable` that was exercised; 1.0 where there are none."""
        return len(self.exercised) / len(self.checkable) if self.checkable else 1.0

    @cached_property
    def pending(self) -> tuple[Found, ...]:
        """The functions that were not reached before the user ended the run."""
        reached = {v.found.id for v in self.verdicts}
        return tuple(f for f in self.checkable if f.id not in reached)

    @property
    def sentence(self) -> str:
        """The verdict on the package, in one sentence."""
        counts, total = self.counts, len(self.checkable)
        words: list[str] = []
        if self.findings:
            words.append(f"{count(self.findings, 'finding')} in {counts['wrong']} of {count(total, 'function')}")
        words += [f"{counts[kind]} {kind}" for kind in BROKEN if counts[kind]]
        if not words:
            if total and not self.exercised:
                words.append(f"Nothing could be said of {count(total, 'function')}")
            elif total:
                words.append(f"Nothing wrong found in {count(len(self.exercised), 'function')}")
            else:
                words.append("No custom gradient found")
        words += [f"{count(self.suppressed, 'known finding')} left out"] if self.suppressed else []
        words += [f"{counts['not exercised']} not exercised"] if counts["not exercised"] else []
        words += [f"interrupted before {count(len(self.pending), 'function')}"] if self.interrupted else []
        return "; ".join(words) + "."


def title(package: Package) -> str:
    """Name and version."""
    return clean(f"{package.name or package.target} {package.version}".strip())


def standing(verdict: Verdict) -> str:
    """The kind of the verdict; "known" where every finding is suppressed."""
    return "known" if verdict.kind == "wrong" and not verdict.open else verdict.kind


def letter(status: str) -> str:
    """One character for a cell of the support matrix."""
    return _LETTERS.get(status, ".")


def finding_of(data: dict[str, Any], note: bool = False) -> Finding:
    """The finding whose data these are."""
    names = ("rule", "message", "hint", "diagnosis", "sample", "condition", "where", "count")
    given = {name: data[name] for name in names if name in data}
    return Finding(**given, evidence=tuple(data.get("evidence", ())), note=note)


def grouped(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Names by what they have in common, the largest group first."""
    groups: dict[str, list[str]] = {}
    for key, name in pairs:
        groups.setdefault(key, []).append(name)
    return sorted(groups.items(), key=lambda group: -len(group[1]))
