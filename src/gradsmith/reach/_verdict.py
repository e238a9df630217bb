"""What came of the check of one function, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from gradsmith.reach._found import Found

__all__ = ["GUESSES", "SOURCES", "Kind", "Verdict"]

Kind = Literal["right", "wrong", "not exercised", "crashed", "timed out", "out of memory"]

GUESSES = ("call site", "search")  # where the inputs may mean nothing
SOURCES = ("case", "recorded", "call site", "search")  # where the inputs came from, best first


@dataclass(frozen=True)
class Verdict:
    """One function: what it was called with, and what was found.

    Args:
        found: The function.
        kind: "right": nothing wrong was found. "wrong": there are findings. "not exercised": it could not be called;
            `why` says what was met. The others: it ended the process, did not come back, or wanted too much memory.
        why: One sentence; empty where `kind` is "right" or "wrong".
        source: Where the inputs came from, one of `SOURCES`; empty where it was not exercised.
        source_where: File and line of the case or the call site, or the command that was recorded.
        call: The call in words: "Clip.apply(randn(3, 4), 0.5)".
        pin: Lines that pin this call when they are put into `gradsmith_cases.py`.
        tries: How many calls were tried.
        intent: What the gradient is meant to be, told from its behaviour: "derivative", "multiple of the derivative",
            "surrogate", "straight-through", "loss scaler", "projection or convention", "random"; "declared" where a
            declaration says it; empty where it was not exercised.
        intent_why: What shows it, in one sentence.
        declaration: Python to paste where the intent is to be declared; empty where there is nothing to declare.
        findings: As in `Report.to_dict()["findings"]`, each with `suppressed`: "" or "inline: reason" or "baseline".
        notes: The same, for what is no fault.
        matrix: As in `Report.to_dict()["matrix"]`.
        seconds: How long it took, the search included.
    """

    found: Found
    kind: Kind
    why: str = ""
    source: str = ""
    source_where: str = ""
    call: str = ""
    pin: str = ""
    tries: int = 0
    intent: str = ""
    intent_why: str = ""
    declaration: str = ""
    findings: tuple[dict[str, Any], ...] = ()
    notes: tuple[dict[str, Any], ...] = ()
    matrix: tuple[dict[str, str], ...] = ()
    seconds: float = 0.0

    @property
    def guessed(self) -> bool:
        """Whether the inputs are a guess, and what was found holds only if they are legal."""
        return self.source in GUESSES

    @property
    def open(self) -> tuple[dict[str, Any], ...]:
        """The findings that are not suppressed."""
        return tuple(f for f in self.findings if not f.get("suppressed"))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Verdict:
        data = dict(data, found=Found(**data["found"]))
        for name in ("findings", "notes", "matrix"):
            data[name] = tuple(data[name])
        return cls(**data)
