"""Measuring: candidates take turns in one process, and what counts is how they compare.

A machine has moods: another process, a clock that rises and falls. Candidates that take turns share them, so their
ratio is steadier than their times. Two ratios are kept: of the shortest times, which no other process can make shorter,
and the median over rounds of the ratio within a round, which a slow spell does not move.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["Comparison", "Effort", "Times", "take_turns"]

Candidate = Callable[[], object]


@dataclass(frozen=True)
class Effort:
    """How long to measure one set of candidates: this many rounds, or fewer when the seconds are up."""

    rounds: int
    seconds: float


@dataclass(frozen=True)
class Times:
    """Seconds per call of one candidate, one number per round."""

    rounds: Sequence[float]

    @property
    def least(self) -> float:
        return min(self.rounds)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)


@dataclass(frozen=True)
class Comparison:
    """One thing measured against another."""

    ours: Times
    other: Times

    @property
    def of_least(self) -> float:
        return self.ours.least / self.other.least

    @property
    def of_rounds(self) -> float:
        return statistics.median(a / b for a, b in zip(self.ours.rounds, self.other.rounds, strict=True))


def take_turns(candidates: Mapping[str, Candidate], effort: Effort) -> dict[str, Times]:
    """Time every candidate in every round, each round beginning with another one."""
    calls = {name: _calls_per_turn(candidate) for name, candidate in candidates.items()}
    names = list(candidates)
    rounds: dict[str, list[float]] = {name: [] for name in names}
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()  # as timeit does: a collection would land on whoever is running
    try:
        end = time.perf_counter() + effort.seconds
        for i in range(effort.rounds):
            first = i % len(names)
            for name in names[first:] + names[:first]:
                rounds[name].append(_time(candidates[name], calls[name]))
            if i >= 4 and time.perf_counter() > end:
                break
    finally:
        if collecting:
            gc.enable()
    return {name: Times(seconds) for name, seconds in rounds.items()}


def _calls_per_turn(candidate: Candidate, turn: float = 1e-3) -> int:
    """Enough calls that a turn lasts a millisecond, which the clock measures well. Warms up, too."""
    candidate()
    calls = 1
    while calls < 10_000 and _time(candidate, calls) * calls < turn:
        calls *= 2
    return calls


def _time(candidate: Candidate, calls: int) -> float:
    repeat = range(calls)
    start = time.perf_counter()
    for _ in repeat:
        candidate()
    return (time.perf_counter() - start) / calls
