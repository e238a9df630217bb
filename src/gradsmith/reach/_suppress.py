"""What is known of the findings set aside: by a comment in the source, and by the baseline."""

from __future__ import annotations

import tokenize
from collections.abc import Callable, Iterable

from gradsmith.reach._baseline import Baseline, apply_baseline
from gradsmith.reach._ignore import apply_ignores
from gradsmith.reach._options import Options
from gradsmith.reach._verdict import Verdict

__all__ = ["asked_for", "suppressed"]


def suppressed(
    verdicts: Iterable[Verdict], known: Baseline | None = None, options: Options | None = None
) -> tuple[list[Verdict], list[str]]:
    """The verdicts with what is known marked, and remarks on comments and entries that suppress nothing.

    `options` say what could have been found: nothing is called needless that this run did not look for, and a fast
    check leaves too much out to tell.
    """
    options = options or Options()
    asked = asked_for(options)
    marked, remarks = apply_ignores(verdicts, _text, lambda rule: asked(rule) and not options.fast)
    if known is not None:
        marked, stale = apply_baseline(marked, known, asked, options.fast)
        remarks += stale
    return marked, remarks


def asked_for(options: Options) -> Callable[[str], bool]:
    """Whether findings of a rule are reported."""

    def asked(rule: str) -> bool:
        chosen = not options.select or rule.startswith(options.select)
        return chosen and not (options.ignore and rule.startswith(options.ignore))

    return asked


def _text(file: str) -> str | None:
    """The source of a file in the encoding it names; None where it cannot be read."""
    try:
        with tokenize.open(file) as stream:
            return stream.read()
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return None
