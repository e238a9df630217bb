"""``gradsmith check``, ``gradsmith rules`` and ``gradsmith explain``.

Nothing here imports torch until a check begins.
"""

from __future__ import annotations

import contextlib
import difflib
import faulthandler
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradsmith.check.command import _output
from gradsmith.errors import UsageError

if TYPE_CHECKING:
    from gradsmith.check._finding import Rule
    from gradsmith.check.report._report import Report

__all__ = ["check", "explain", "rules"]

_MOST_SECONDS = 1e6
_MARGIN = 60.0  # seconds beyond the limit after which even code that does not return to Python is ended


class _Refusal(click.ClickException):
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

    return _output.write(rule_list(listed, colour=_colour()))


@click.command()
@click.argument("rule")
def explain(rule: str) -> None:
    """Print the page of a rule, given by its code (GS203) or its name."""
    from gradsmith.check.report._pages import page

    text = page(_rule(rule))
    if _colour():
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
    raise _Refusal(f"there is no rule {word!r}; {hint}")


def _codes(option: str, given: Sequence[str]) -> tuple[str, ...]:
    """Codes or their beginnings, from values with commas between them; each must stand for a rule."""
    words = [word.strip() for value in given for word in value.split(",") if word.strip()]
    known = [rule.code for rule in _rules()] if words else []
    for word in words:
        if not any(code.startswith(word.upper()) for code in known):
            raise _Refusal(f"{option}: no rule's code begins with {word!r}; `gradsmith rules` lists them")
    return tuple(word.upper() for word in words)


# --- check -------------------------------------------------------------------------------------------


@click.command()
@click.argument("subject")
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]SIZES[:DTYPE][:LOW..HIGH]",
    help="An input, in the order of the parameters: 3x4, scalar, x=3x4:float64, 4:0.1..2, 5:int64:0..9.",
)
@click.option("--arg", "arguments", multiple=True, metavar="NAME=VALUE", help="A further argument, such as eps=1e-5.")
@click.option("--gradient-of", metavar="SUBJECT", help="The function whose derivative the gradient is meant to be.")
@click.option("--reference", metavar="SUBJECT", help="A function with the same forward, in plain operations.")
@click.option(
    "--waive", multiple=True, metavar="LAW", help="What is broken on purpose: linearity, derivative, or a rule's code."
)
@click.option(
    "--select", multiple=True, metavar="CODES", help="Only these rules: codes or their beginnings, GS1,GS203."
)
@click.option("--ignore", multiple=True, metavar="CODES", help="Not these rules.")
@click.option("--fast", is_flag=True, help="Leave out what takes long, such as compiling.")
@click.option("--thorough", is_flag=True, help="Try more samples.")
@click.option("--device", metavar="DEVICE", help="Where to run, such as cpu or cuda:1.  [default: cpu]")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True, help="Seed of every number.")
@click.option(
    "--timeout",
    type=float,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="When to stop.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Write the report as one HTML page too.")
def check(subject: str, as_json: bool, html: Path | None, **options: Any) -> None:
    """Find what is wrong with a custom gradient.

    SUBJECT is FILE.py::Name or package.module:Name: an autograd function, a function that applies one, or a module.

    Ends with 0 where nothing is wrong, with 1 where something is, and with 2 where it could not be checked.

    \b
    gradsmith check norm.py::LayerNorm --input 3x4 --input 4 --arg eps=1e-5
    """
    from gradsmith.cli import require_torch

    if not 0 < options["timeout"] <= _MOST_SECONDS:
        raise _Refusal(
            f"--timeout: got {options['timeout']:g}; expected seconds above 0, and at most {_MOST_SECONDS:g}"
        )
    if options["fast"] and options["thorough"]:
        raise _Refusal("--fast and --thorough exclude each other; give one of them, or none")
    if html is not None:
        _require_writable(html)
    options["select"] = _codes("--select", options["select"])
    options["ignore"] = _codes("--ignore", options["ignore"])
    require_torch()
    try:
        with _output.own_stdout(), _last_bound(options["timeout"]):
            report = _run(subject, **options)
    except UsageError as error:
        _output.quiet_from_now_on()
        raise _Refusal(str(error)) from None
    _output.quiet_from_now_on()
    if html is not None:
        _write_page(html, report)
    if as_json:
        _output.write(report.to_json())
    else:
        from gradsmith.check.report._text import render

        _output.write(render(report, colour=_colour()))
    if not report.ok:
        sys.exit(1)


def _run(
    subject: str,
    *,
    inputs: Sequence[str],
    arguments: Sequence[str],
    gradient_of: str | None,
    reference: str | None,
    device: str | None,
    seed: int,
    waive: Sequence[str],
    **options: Any,
) -> Report:
    """Read everything, and check."""
    import torch

    from gradsmith.check import check as run_check
    from gradsmith.check._guard import Clock
    from gradsmith.check.command._load import load_subject, search_path
    from gradsmith.check.command._progress import ProgressBar
    from gradsmith.check.command._read import read_argument, read_device, read_input
    from gradsmith.check.command._signature import require_names

    if not inputs:
        raise UsageError("there is nothing to call the subject with: give at least one --input, such as --input 3x4")
    where = read_device(device) if device else torch.device("cpu")
    generator = torch.Generator().manual_seed(seed)
    made = [read_input(text, generator, where) for text in inputs]
    kwargs: dict[str, Any] = {}
    for name, value in map(read_argument, arguments):
        if name in kwargs:
            raise UsageError(f"--arg: {name} is given twice")
        kwargs[name] = value
    named = [text for text in (subject, gradient_of, reference) if text]
    with search_path(*named), ProgressBar() as progress:
        with Clock(options["timeout"]).limit(options["timeout"]):
            found: list[Any] = [load_subject(text) if text else None for text in (subject, gradient_of, reference)]
        loaded, gradient, trusted = found
        require_names(loaded, [name for name, _ in made])
        return run_check(
            loaded,
            tuple(tensor for _, tensor in made),
            kwargs=kwargs,
            gradient_of=gradient,
            reference=trusted,
            waive=tuple(law.strip() for value in waive for law in value.split(",") if law.strip()),
            device=device,
            seed=seed,
            progress=progress,
            **options,
        )


@contextlib.contextmanager
def _last_bound(timeout: float) -> Iterator[None]:
    """End the process where the checked code neither ends nor can be interrupted; the stacks go to stderr."""
    stream = sys.__stderr__
    try:
        if stream is None:
            raise ValueError
        faulthandler.dump_traceback_later(timeout + _MARGIN, exit=True, file=stream)
    except (AttributeError, OSError, ValueError):  # a stream that is no file
        yield
        return
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


# --- output ------------------------------------------------------------------------------------------


def _require_writable(path: Path) -> None:
    """Find out before the work, not after it, that the page cannot be written."""
    if path.is_dir():
        raise _Refusal(f"--html: {str(path)!r} is a folder; expected the name of a file")
    if not path.parent.is_dir():
        raise _Refusal(f"--html: there is no folder {str(path.parent)!r}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise _Refusal(f"--html: {str(path)!r} cannot be written")


def _write_page(path: Path, report: Report) -> None:
    try:
        path.write_text(report.to_html(), encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"--html: {str(path)!r} cannot be written: {error.strerror}") from None


def _colour() -> bool:
    """Whether stdout is a terminal that takes colour."""
    terminal = sys.stdout is not None and sys.stdout.isatty()
    return terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
