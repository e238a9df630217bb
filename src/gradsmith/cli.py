"""The ``gradsmith`` command.

Nothing here imports torch until a command computes something: ``--help`` and ``--version`` answer at once.
"""

import json
import re
import sys
import warnings

import click

from gradsmith.check.command import _command
from gradsmith.reach.command import _check, _record

__all__ = ["main", "require_torch"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
_ROUNDS_TO_INFINITY = (2 - 2**-24) * 2.0**127  # the least number that float32 cannot hold


class _Refusal(click.ClickException):
    """A value that was refused: one line on stderr, exit code 2 as for click's own usage errors."""

    exit_code = 2


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gradsmith", message="%(prog)s %(version)s")
def main() -> None:
    """Custom gradients for PyTorch that hold under every transform."""


def _number(text: str) -> float:
    """Read --scale: one finite number, in the range of float32."""
    expected = "expected one finite number, such as --scale=0.5"
    return _parse_number(text.strip(), "--scale", f"got {_quote(text)}", expected)


def _numbers(text: str) -> list[float]:
    """Read --input: such numbers between commas or spaces; brackets around them are welcome."""
    expected = "expected finite numbers between commas or spaces, such as --input=-3,-1,0,2,4"
    items = _SEPARATOR.split(_without_brackets(text.strip()).strip())
    if not any(items):
        raise _Refusal(f"--input: got {_quote(text)}, which holds no number; {expected}")
    return [
        _parse_number(item, "--input", f"item {place} of {_quote(text)} is {_quote(item)}", expected)
        for place, item in enumerate(items, start=1)
    ]


def _without_brackets(text: str) -> str:
    if text[:1] + text[-1:] in ("[]", "()"):
        return text[1:-1]
    return text


def _parse_number(text: str, option: str, got: str, expected: str) -> float:
    if not text:
        raise _Refusal(f"{option}: {got}, which is empty; {expected}")
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise _Refusal(f"{option}: {got}, which is not finite; {expected}")
    if not _NUMBER.fullmatch(text):
        raise _Refusal(f"{option}: {got}, which is not a number; {expected}")
    value = float(text)
    if abs(value) >= _ROUNDS_TO_INFINITY:
        limit = "the largest float32 is about 3.4e38"
        raise _Refusal(f"{option}: {got}, which is too large ({limit}); {expected}")
    return value + 0.0  # -0.0 becomes 0.0: a sign on zero would only puzzle


def _quote(text: str) -> str:
    """What was typed, on one line, without control characters, and never a whole screen of it."""
    quoted = repr(text)
    if len(quoted) <= 80:
        return quoted
    return f"{quoted[:60]}... ({len(text)} characters)"


@main.command()
@click.option(
    "--input",
    "values",
    type=_numbers,
    metavar="NUMBERS",
    help="Numbers for both parts, between commas or spaces.  [default: -3,-1,0,2,4 and 1,2,3,4]",
)
@click.option(
    "--scale",
    type=_number,
    metavar="NUMBER",
    default="0.5",
    show_default=True,
    help="First scale of gradient-scale.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
def demo(values: list[float] | None, scale: float, as_json: bool) -> None:
    """Show what the gradients of the two seed functions do.

    Runs them as written by hand in the exercises and as library operations, and compares the two.
    """
    require_torch()
    from gradsmith import demo as room

    try:
        split, scaled = room.run(values, scale)
    except room.DisagreementError as error:
        raise click.ClickException(str(error)) from None
    if sys.stdout is None:
        raise click.ClickException("there is no standard output to write to")
    try:
        if as_json:
            click.echo(json.dumps(room.summary(split, scaled)))
        else:
            room.draw(split, scaled, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # click ends quietly
    except OSError as error:
        raise click.ClickException(f"the output cannot be written: {error.strerror}") from None


def require_torch() -> None:
    """Import torch, or say in one sentence that it cannot be."""
    # torch warns on import when NumPy is absent; nothing here needs NumPy.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    try:
        import torch  # noqa: F401
    except (ImportError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise click.ClickException(
            f"this command needs PyTorch 2.13 or newer, which cannot be imported ({reason}); "
            "install it with: pip install 'torch>=2.13'"
        ) from None


main.add_command(_check.check)
main.add_command(_record.record)
main.add_command(_command.rules)
main.add_command(_command.explain)
