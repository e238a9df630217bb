"""``gradsmith rules`` and ``gradsmith explain``, and what the commands have in common. Nothing here imports torch."""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from gradsmith.check.command import _output

if TYPE_CHECKING:
    from gradsmith.check._finding import Rule

__all__ = ["Refusal", "codes", "coloured", "explain", "rules"]


class Refusal(click.ClickException):
    """Bad use: one sentence on stderr, exit code 2 as for click's own usage errors."""

    exit_code = 2


# --- rules and explain -------------------------------------------------------------------------------


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def rules(as_json: bool) -> None:
    """List the rules of the check, by family."""
    listed = _rules()
    if as_json:
        described = [{"code": r.code, "name": r.name, "family": r.family, "summary": r.summary} for r in listed]
        return _output.write(json.dumps({"schema": 1, "rules": described}))
    from gradsmith.check.report._text import rule_list

    return _output.write(rule_list(listed, colour=coloured()))


@click.command()
@click.argument("rule")
def explain(rule: str) -> None:
    """Print the page of a rule, given by its code (GS203) or its name."""
    from gradsmith.check.report._pages import page

    text = page(_rule(rule))
    if coloured():
        from gradsmith.check.report._text import markdown

        text = markdown(text)
    _output.write(text.rstrip())


def _rules() -> list[Rule]:
    from gradsmith.check.rules import RULES

    return sorted(RULES, key=lambda rule: rule.code)


def _rule(word: str) -> Rule:
    wanted = word.strip().lower().replace(" ", "-").replace("_", "-")
    by_word = {key: rule for rule in _rules() for key in (rule.code.lower(), rule.name.lower())}
    if wanted in by_word:
        return by_word[wanted]
    close = [key for key in by_word if wanted and key.startswith(wanted)][:5]
    close = close or difflib.get_close_matches(wanted, by_word, n=3)
    named = dict.fromkeys(f"{by_word[key].code} ({by_word[key].name})" for key in close)
    hint = f"did you mean {' or '.join(named)}?" if close else "`gradsmith rules` lists them"
    raise Refusal(f"there is no rule {word!r}; {hint}")


def codes(option: str, given: Sequence[str]) -> tuple[str, ...]:
    """Codes or their beginnings, from values with commas between them; each must stand for a rule."""
    words = [word.strip() for value in given for word in value.split(",") if word.strip()]
    known = [rule.code for rule in _rules()] if words else []
    for word in words:
        if not any(code.startswith(word.upper()) for code in known):
            raise Refusal(f"{option}: no rule's code begins with {word!r}; `gradsmith rules` lists them")
    return tuple(word.upper() for word in words)


# --- output ------------------------------------------------------------------------------------------


def coloured() -> bool:
    """Whether stdout is a terminal that takes colour."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
