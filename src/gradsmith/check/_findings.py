"""From observations to findings: every rule is asked, what was waived is left out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gradsmith.check._finding import Finding
from gradsmith.check._observation import Observation, Observations
from gradsmith.check.rules import RULES
from gradsmith.errors import UsageError

__all__ = ["find", "require_codes"]

# What an author may honestly give up, and the rules that go with it.
LAWS = {"linearity": ("GS203",), "derivative": ("GS101", "GS102", "GS103", "GS104", "GS105", "GS106", "GS107", "GS202")}


def find(
    observations: Observations, *, waive: Iterable[str] = (), select: Iterable[str] = (), ignore: Iterable[str] = ()
) -> list[Finding]:
    """The findings of every rule, worst family first, without those waived, ignored or not selected.

    `observations` gets one more, which says what was waived.
    """
    waived, chosen, left_out = _codes("waive", waive), _codes("select", select), _codes("ignore", ignore)
    laws = [w for w in waived if w in LAWS]
    codes = {c for w in waived for c in LAWS.get(w, (w,))}
    observations.items.append(Observation("waived", data={"names": [*laws, *sorted(codes)]}))
    found = [finding for rule in RULES for finding in rule(observations)]
    return [
        f
        for f in found
        if f.rule not in codes
        and (not chosen or f.rule.startswith(tuple(chosen)))
        and not f.rule.startswith(tuple(left_out) or ("-",))
    ]


def require_codes(*, waive: Iterable[str], select: Iterable[str], ignore: Iterable[str]) -> None:
    """Refuse, before the work and not after it, what is no rule."""
    for argument, given in (("waive", waive), ("select", select), ("ignore", ignore)):
        _codes(argument, given)


def _codes(argument: str, given: Iterable[str]) -> list[str]:
    """Codes, their beginnings or laws; an unknown one is refused with what is near it."""
    kind: type = type(given)
    if not hasattr(kind, "__iter__") or kind is bytes:
        raise UsageError(f"{argument}: got {type(given).__name__}; expected rule codes, such as ['GS101']")
    names = [given] if isinstance(given, str) else list(given)
    known = [rule.code for rule in RULES]
    by_name = {rule.name: rule.code for rule in RULES}
    found = []
    for name in names:
        text = str(name).strip()
        code = by_name.get(text.lower(), text.upper())
        if argument == "waive" and text.lower() in LAWS:
            found.append(text.lower())
        elif (
            len(code) >= 2
            and any(k.startswith(code) for k in known)
            and not (argument == "waive" and code not in known)
        ):
            found.append(code)
        else:
            options = [*known, *by_name, *(LAWS if argument == "waive" else [])]
            near = difflib.get_close_matches(text, options, 3, 0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else "`gradsmith rules` lists them"
            raise UsageError(f"{argument}: got {name!r}, which is no rule; {hint}")
    return found
