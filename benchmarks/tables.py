"""Tables as plain data; how they look is the business of `report.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from timing import Comparison

__all__ = ["Figures", "Grid", "Row", "checked", "compared", "in_bytes", "in_seconds"]


@dataclass(frozen=True)
class Row:
    """One figure: what is compared with what, how it came out, and what it was to be."""

    what: str
    ours: str
    other: str = ""
    ratio: float | None = None  # of the shortest times
    ratio_of_rounds: float | None = None  # the median over rounds
    target: str = ""
    verdict: str = ""


@dataclass(frozen=True)
class Figures:
    """Rows of figures, and in words what they are near and how they were taken."""

    title: str
    rows: Sequence[Row]
    notes: Sequence[str]


@dataclass(frozen=True)
class Grid:
    """A table of words: one line per subject."""

    title: str
    heads: Sequence[str]
    lines: Sequence[Sequence[str]]
    notes: Sequence[str]


def compared(what: str, comparison: Comparison, target: float | None = None) -> Row:
    """A row for one ratio. It meets its target clearly, not at all, or by one of its two ratios only."""
    least, rounds = comparison.of_least, comparison.of_rounds
    verdict = ""
    if target is not None:
        verdict = {2: "met", 1: "at the edge", 0: "not met"}[(least <= target) + (rounds <= target)]
    return Row(
        what,
        in_seconds(comparison.ours.least),
        in_seconds(comparison.other.least),
        least,
        rounds,
        "" if target is None else f"at most {target}x",
        verdict,
    )


def checked(what: str, found: str, wanted: str, met: bool) -> Row:
    """A row for something that is counted or looked at, not timed."""
    return Row(what, found, target=wanted, verdict="met" if met else "not met")


def in_seconds(seconds: float) -> str:
    return f"{seconds * 1e6:.2f} us" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def in_bytes(count: int) -> str:
    return f"{count / 2**20:g} MiB" if count >= 2**20 else f"{count} B"
