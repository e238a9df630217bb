"""The search: calls tried one after the other until one runs forward and backward."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from gradsmith.check._guard import quiet, text_of
from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.search._attempt import Attempt, attempt
from gradsmith.reach.inputs.search._draft import Draft
from gradsmith.reach.inputs.search._index import SourceIndex
from gradsmith.reach.inputs.search._propose import proposals

__all__ = ["SearchResult", "search"]

_ONE = 3.0  # seconds for a call
_FIRST = 15.0  # for the first, which may compile
_SURE = 3  # calls that fail for want of a device or a library, before it is believed
# What a backward raises whatever it is called with; a wrong guess makes shapes, types or devices disagree. An attribute
# that one of our own guesses lacks is no bug.
_GUESSED = r"'(?:Tensor|NoneType|int|float|str|bool|tuple|list|dict|function|builtin_function\w*)' object"
_BUG = re.compile(
    r"NameError|UnboundLocalError|returned an incorrect number of gradients|"
    rf"AttributeError: (?!.*{_GUESSED})|TypeError: .*(?:positional argument|unexpected keyword)"
)
# What no other call helps against.
_NOT_HERE = re.compile(
    r"Could not run '(?!aten::)|not compiled with CUDA|No module named|Triton is not|"
    r"(?:requires?|needs?|without|install) (?:a )?(?:CUDA|Triton|CuPy|GPU)|"
    r"(?:must be|expected to be) (?:a |on )*(?:CUDA|GPU)",
    re.IGNORECASE,
)
_GROUP = re.compile(r"process group|init_process_group|not initialized", re.IGNORECASE)


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


def search(
    subject: Any,
    name: str,
    index: SourceIndex,
    *,
    tries: int = 50,
    seconds: float = 20.0,
    told: Callable[[Call], None] = lambda call: None,
) -> SearchResult:
    """Look for a call of a subject that runs forward and backward.

    Args:
        subject: What is called: a Function, an operator, a declared gradient.
        name: Its name in the source, by which its call sites are found.
        index: The source of its package.
        tries: Calls that are made before it is given up.
        seconds: And the time.
        told: Hears each call before it is made.
    """
    end = time.monotonic() + seconds
    if isinstance(subject, type) and issubclass(subject, torch.nn.Module):
        try:
            with quiet():
                instance = subject()
        except Exception as error:  # noqa: BLE001  (a class of the package)
            return SearchResult(why=f"{subject.__name__}() raises {type(error).__name__}: {text_of(error)}"[:400])
        return _of_instance(search(instance, name, index, tries=tries, seconds=seconds, told=told), instance)
    result = _Run(subject, name, index, told).until(tries, end)
    if result.call is None and result.broken is None and _GROUP.search(result.why) and _start_group():
        result = _Run(subject, name, index, told).until(tries, end)
    return result


def _of_instance(result: SearchResult, instance: torch.nn.Module) -> SearchResult:
    """The calls with the module they are for: what was found is its class."""
    for call in (result.call, result.second, result.broken):
        if call is not None:
            call.subject = instance
    return result


def _start_group() -> bool:
    """A process group of this process alone, where there is none yet."""
    dist: Any = torch.distributed
    if not dist.is_available() or dist.is_initialized():
        return False
    try:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    except (RuntimeError, ValueError):
        return False
    return True


class _Run:
    """One way through the proposals."""

    def __init__(self, subject: Any, name: str, index: SourceIndex, told: Callable[[Call], None]) -> None:
        self.subject, self.told = subject, told
        self.plan = proposals(subject, name, index)
        self.failures: list[tuple[Draft, Attempt]] = []

    def until(self, tries: int, end: float) -> SearchResult:
        with quiet():
            draft = next(self.plan, None)
            while draft is not None and len(self.failures) < tries and (left := end - time.monotonic()) > 0:
                seen, call = self._tried(draft, min(left, _ONE if self.failures else _FIRST))
                if seen.reached:
                    return SearchResult(call, self._second(draft, left), tries=len(self.failures) + 1)
                self.failures.append((draft, seen))
                if len(self.failures) == _SURE and all(_NOT_HERE.search(a.error) for _, a in self.failures):
                    break
                draft = self._next(seen)
        return SearchResult(None, None, _broken(self.failures), _why(self.failures), len(self.failures))

    def _tried(self, draft: Draft, seconds: float) -> tuple[Attempt, Call | None]:
        try:
            call = draft.call()
        except Exception as error:  # noqa: BLE001  (a shape that a kind of tensor does not have)
            return Attempt("forward", text_of(error)), None
        self.told(call)
        return attempt(self.subject, call, seconds), call

    def _next(self, seen: Attempt) -> Draft | None:
        told = seen.error if seen.stage in ("forward", "backward") else ""
        about = f" [argument {', '.join(map(str, seen.blamed))}]" if seen.blamed else ""
        try:
            return self.plan.send(told + about)
        except StopIteration:
            return None

    def _second(self, draft: Draft, left: float) -> Call | None:
        """A call of other sizes, or at least of other numbers."""
        for other in (*draft.resized(), draft):
            call = other.call(seed=1)
            if attempt(self.subject, call, min(max(left, 0.1), _ONE)).reached:
                return call
        return None


def _broken(failures: list[tuple[Draft, Attempt]]) -> Call | None:
    """A call whose backward raises by its own fault, where at least half of all backwards that ran do the same."""
    behind = [(d, _BUG.search(a.error) and a.error) for d, a in failures if a.stage == "backward"]
    told = [error for _, error in behind if error]
    common = max(dict.fromkeys(told), key=told.count, default=None)
    if common is None or 2 * told.count(common) < len(behind):
        return None
    return next(d for d, error in behind if error == common).call()


def _why(failures: list[tuple[Draft, Attempt]]) -> str:
    """What was met by the calls that got furthest."""
    order = ("not finite", "backward", "no gradient", "forward")
    for stage in order:
        errors = [a.error for _, a in failures if a.stage == stage]
        if errors:
            told = max(dict.fromkeys(errors), key=errors.count)
            told = told.partition(". This could be because")[0]
            where = f"{stage}: " if stage in ("forward", "backward") else ""
            tries = f"{len(failures)} calls were" if len(failures) > 1 else "1 call was"
            return f"{tries} tried; {where}{told}"[:400]
    return "no call could be thought of"
