"""The search: calls tried one after the other until one runs forward and backward."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from gradsmith.check._guard import quiet
from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.search._attempt import Attempt, attempt
from gradsmith.reach.inputs.search._draft import Draft
from gradsmith.reach.inputs.search._index import SourceIndex
from gradsmith.reach.inputs.search._propose import proposals

__all__ = ["SearchResult", "search"]

_ONE = 3.0  # seconds for a call
_FIRST = 15.0  # for the first, which may compile
# A backward that raises these does so whatever it is called with, or nearly; a wrong guess makes shapes disagree.
_BUGS = ("AttributeError", "TypeError", "NameError", "UnboundLocalError", "KeyError", "NotImplementedError")


@dataclass(frozen=True)
class SearchResult:
    """What a search came to.

    Args:
        call: One that runs; None where there is none.
        second: Another one, of another shape.
        broken: A call whose forward runs and whose backward raises, as it does for all that were tried.
        why: The reason where none runs: that met most often.
        tries: Calls that were made.
    """

    call: Call | None = None
    second: Call | None = None
    broken: Call | None = None
    why: str = ""
    tries: int = 0


def search(subject: Any, name: str, index: SourceIndex, *, tries: int = 50, seconds: float = 20.0) -> SearchResult:
    """Look for a call of a subject that runs forward and backward.

    Args:
        subject: What is called: a Function, an operator, a declared gradient.
        name: Its name in the source, by which its call sites are found.
        index: The source of its package.
        tries: Calls that are made before it is given up.
        seconds: And the time.
    """
    started, made = time.monotonic(), 0
    failures: list[tuple[Draft, Attempt]] = []
    plan = proposals(subject, name, index)
    with quiet():
        draft = next(plan, None)
        while draft is not None and made < tries and (left := seconds - (time.monotonic() - started)) > 0:
            made += 1
            try:
                call = draft.call()
            except Exception as error:  # noqa: BLE001  (a shape that a kind of tensor does not have)
                seen = Attempt("forward", str(error))
            else:
                seen = attempt(subject, call, min(left, _FIRST if made == 1 else _ONE))
                if seen.reached:
                    return SearchResult(call, _second(subject, draft, left), tries=made)
            failures.append((draft, seen))
            try:
                draft = plan.send(seen.error if seen.stage in ("forward", "backward") else "")
            except StopIteration:
                draft = None
    broken = _broken(failures)
    return SearchResult(None, None, broken, _why(failures), made)


def _second(subject: Any, draft: Draft, left: float) -> Call | None:
    """A call of other sizes, or at least of other numbers."""
    for other in (draft.resized(), draft):
        call = other.call(seed=1)
        if attempt(subject, call, min(max(left, 0.1), _ONE)).reached:
            return call
    return None


def _broken(failures: list[tuple[Draft, Attempt]]) -> Call | None:
    behind = [(d, a) for d, a in failures if a.stage == "backward"]
    kinds = {a.kind for _, a in behind}
    bug = len(kinds) == 1 and (
        kinds <= set(_BUGS) or all("incorrect number of gradients" in a.error for _, a in behind)
    )
    return behind[0][0].call() if behind and bug else None


def _why(failures: list[tuple[Draft, Attempt]]) -> str:
    """What was met by the calls that got furthest."""
    order = ("not finite", "no gradient", "backward", "forward")
    for stage in order:
        errors = [a.error for _, a in failures if a.stage == stage]
        if errors:
            told = max(dict.fromkeys(errors), key=errors.count)
            where = f"{stage}: " if stage in ("forward", "backward") else ""
            return f"{len(failures)} calls were tried; {where}{told}"[:400]
    return "no call could be thought of"
