"""Findings, and the rules that make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from gradsmith.check._observation import Observations

__all__ = ["FAMILIES", "Finding", "Rule"]

FAMILIES = {
    "GS1": "value",
    "GS2": "incoming gradient, layout and mutation",
    "GS3": "structure",
    "GS4": "lifetime",
    "GS5": "higher order",
    "GS6": "transforms",
    "GS7": "numerics",
    "GS8": "state",
    "GS9": "source",
}


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong.

    Args:
        rule: The stable code of the rule, such as "GS203".
        message: What is wrong, in one sentence.
        hint: How to mend it.
        diagnosis: What the numbers look like: "the gradient is -1 times the derivative"; may be empty.
        evidence: Lines that show it: which input, which element, got, expected, ratio.
        sample: On which inputs it was seen.
        condition: How it was run.
        where: File and line, where they are known.
        count: How many observations show it.
        note: True for what the author cannot mend or may well want: it is printed, and is no fault.
    """

    rule: str
    message: str
    hint: str = ""
    diagnosis: str = ""
    evidence: tuple[str, ...] = ()
    sample: str = "as given"
    condition: str = "eager"
    where: str = ""
    count: int = 1
    note: bool = False


@dataclass(frozen=True)
class Rule:
    """A law, why it matters, how it looks when broken and kept, and the function that sees it broken.

    Args:
        code: "GS" and three digits; the first digit is the family.
        name: The rule in a few words joined by hyphens: "wrong-value".
        summary: One line: what the rule finds.
        why: Why it matters to someone who trains with it.
        mend: How to put it right.
        bad: Python source that defines `subject` and `inputs` (and perhaps `options`, a dict of further arguments of
            `check`), on which the rule must find something.
        good: The same put right, on which no rule finds anything.
        find: From observations to findings; a pure function.
    """

    code: str
    name: str
    summary: str
    why: str
    mend: str
    bad: str
    good: str
    find: Callable[[Observations], Iterable[Finding]] = field(repr=False)

    @property
    def family(self) -> str:
        return FAMILIES[self.code[:3]]

    def __call__(self, observations: Observations) -> Iterator[Finding]:
        yield from self.find(observations)
