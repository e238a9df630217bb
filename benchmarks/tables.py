"""A table of figures as plain data; drawing it is the business of `report.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from timing import Comparison

__all__ = ["Cell", "Row", "Table", "compared", "in_bytes", "in_seconds"]

Cell = str


@dataclass(frozen=True)
class Row:
    """One figure: what is compared with what, how it came out, and what it was to be."""

    what: str
    ours: str = ""
    other: str = ""
    ratio: float | None = None  # of the shortest times
    ratio_of_rounds: float | None = None  # the median over rounds
    target: float | None = None
    wanted: str = ""  # a target that is no ratio, in words
    verdict: str = ""


@dataclass(frozen=True)
class Table:
    """A title, rows, what the figures are near, and how they were taken."""

    title: str
    rows: list[Row] = field(default_factory=list)
    floor: str = ""
    grid: tuple[list[str], list[list[Cell]]] | None = None  # a table of words instead: heads, and cells
    notes: list[str] = field(default_factory=list)


def compared(what: str, comparison: Comparison, target: float | None = None) -> Row:
    """A row for one ratio, with a verdict where there is a target."""
    least, rounds = comparison.of_least, comparison.of_rounds
    return Row(
        what,
        in_seconds(comparison.ours.least),
        in_seconds(comparison.other.least),
        least,
        rounds,
        target,
        verdict="" if target is None else _verdict(least <= target, rounds <= target),
    )


def _verdict(by_least: bool, by_rounds: bool) -> str:
    if by_least and by_rounds:
        return "met"
    return "at the edge" if by_least or by_rounds else "not met"


def in_seconds(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{seconds * 1e6:.2f} us"
    return f"{seconds * 1e3:.2f} ms"


def in_bytes(count: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024 or unit == "MiB":
            return f"{count:.0f} {unit}" if count == int(count) else f"{count:.1f} {unit}"
        count /= 1024  # type: ignore[assignment]
    raise AssertionError
