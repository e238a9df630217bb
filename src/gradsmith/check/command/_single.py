"""``gradsmith check SUBJECT --input ...``: one subject, on the inputs that were typed."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradsmith.check.command import _output
from gradsmith.check.command._command import Refusal, coloured
from gradsmith.errors import UsageError

if TYPE_CHECKING:
    from gradsmith.check.report._report import Report

__all__ = ["check_one", "require_writable", "write_file"]

_MARGIN = 60.0  # seconds beyond the limit after which even code that does not return to Python is ended


def check_one(subject: str, *, as_json: bool, html: Path | None, **options: Any) -> None:
    """Check, print the report, and leave with 1 where something is wrong."""
    try:
        with _output.own_stdout(), _last_bound(options["timeout"]):
            report = _run(subject, **options)
    except UsageError as error:
        _output.quiet_from_now_on()
        raise Refusal(str(error)) from None
    _output.quiet_from_now_on()
    if html is not None:
        write_file("--html", html, report.to_html())
    if as_json:
        _output.write(report.to_json())
    else:
        from gradsmith.check.report._text import render

        _output.write(render(report, colour=coloured()))
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


# --- files -------------------------------------------------------------------------------------------


def require_writable(option: str, path: Path) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    if path.is_dir():
        raise Refusal(f"{option}: {str(path)!r} is a folder; expected the name of a file")
    if not path.parent.is_dir():
        raise Refusal(f"{option}: there is no folder {str(path.parent)!r}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise Refusal(f"{option}: {str(path)!r} cannot be written")


def write_file(option: str, path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"{option}: {str(path)!r} cannot be written: {error.strerror}") from None
