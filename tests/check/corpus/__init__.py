"""The corpus: functions as authors write them, with the truth about each.

`FAULTY` and `CORRECT` hold a `Case` each. Every module `faulty_*.py` and `correct_*.py` of this folder ends with
`CASES`, and a new one is collected by being there.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.check.corpus.case import Case

__all__ = ["CORRECT", "FAULTY", "Case"]


def _collect(kind: str) -> list[Case]:
    names = sorted(path.stem for path in Path(__file__).parent.glob(f"{kind}_*.py"))
    return [case for name in names for case in import_module(f"{__name__}.{name}").CASES]


FAULTY: list[Case] = _collect("faulty")
CORRECT: list[Case] = _collect("correct")

_names = [case.name for case in FAULTY + CORRECT]
assert len(_names) == len(set(_names)), sorted(name for name in set(_names) if _names.count(name) > 1)
assert all(case.family and case.fault for case in FAULTY)
assert not any(case.family or case.fault for case in CORRECT)
