"""What a probe hands to the rules: plain data, without tensors and without anything alive.

An `Observation` says which law was tried, on which sample, under which condition, and what was seen. It survives being
written to bytes and read back in another process, where the subject does not exist. Two kinds of record occur in many
of them: a *comparison* of two tensors (made by `compare`) and a *failure* (made by `failure`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Comparison", "Failure", "Observation", "Observations", "dump", "load", "wrong"]

Comparison = dict[str, Any]
Failure = dict[str, Any]


@dataclass(frozen=True)
class Observation:
    """One thing that was seen.

    Args:
        law: What was tried: "value", "linearity", "layout of the incoming gradient".
        sample: On which inputs, in words: "as given", "last size 1".
        condition: How it was run, in words: "eager", "expanded gradient".
        data: What was seen: strings, numbers, None, lists and dicts of them.
    """

    law: str
    sample: str = "as given"
    condition: str = "eager"
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def failure(self) -> Failure | None:
        """What was raised, if something was."""
        return self.data.get("failure")

    @property
    def comparisons(self) -> list[Comparison]:
        """The tensors that were compared, if any were."""
        found: list[Comparison] = self.data.get("comparisons", [])
        return found

    @property
    def wrong(self) -> list[Comparison]:
        """The comparisons that do not agree."""
        return [c for c in self.comparisons if wrong(c)]


def wrong(comparison: Comparison) -> bool:
    """Whether the two sides differ by more than the tolerance."""
    return not comparison["error"] <= comparison["tolerance"]


class Observations:
    """All that was seen of one subject."""

    def __init__(self, items: Iterable[Observation] = ()) -> None:
        self.items = list(items)

    def __iter__(self) -> Iterator[Observation]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def of(self, *laws: str) -> list[Observation]:
        """Those of the named laws, in the order they were seen."""
        return [o for o in self.items if o.law in laws]

    def first(self, law: str) -> dict[str, Any]:
        """The data of the first observation of a law, or nothing."""
        return next((o.data for o in self.items if o.law == law), {})


def dump(observations: Iterable[Observation]) -> bytes:
    """Write observations as JSON, one a line; infinities and nan as the strings "inf", "-inf", "nan" in a box."""
    return b"\n".join(json.dumps(_boxed(asdict(o)), allow_nan=False).encode() for o in observations)


def load(data: bytes) -> Observations:
    """Read what `dump` wrote."""
    return Observations(Observation(**_unboxed(json.loads(line))) for line in data.splitlines() if line)


def _boxed(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": str(value)}
    if isinstance(value, dict):
        return {str(k): _boxed(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_boxed(v) for v in value]
    return value


def _unboxed(value: Any) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"float"} and isinstance(value["float"], str):
            return float(value["float"])
        return {k: _unboxed(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_unboxed(v) for v in value]
    return value
