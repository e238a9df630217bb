"""Standard output that only the command writes to, whatever the checked code prints."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from collections.abc import Iterator

import click

__all__ = ["own_stdout", "quiet_from_now_on", "write"]


@contextlib.contextmanager
def own_stdout() -> Iterator[None]:
    """Send to stderr what is written to stdout meanwhile, from below Python too."""
    with contextlib.ExitStack() as stack:
        if sys.stdout is not None:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        with contextlib.suppress(OSError, ValueError):
            kept = os.dup(1)
            stack.callback(os.close, kept)
            os.dup2(2, 1)
            stack.callback(os.dup2, kept, 1)
            stack.callback(_flush)  # what was written past the redirection, before the descriptor is back
        yield


def _flush() -> None:
    for stream in (sys.__stdout__, sys.stdout):
        if stream is not None:
            with contextlib.suppress(OSError, ValueError):
                stream.flush()


def quiet_from_now_on() -> None:
    """Send to stderr what the checked code prints when Python ends: it can register such code, and that runs later."""

    def mute() -> None:
        with contextlib.suppress(OSError, ValueError):
            if sys.stdout is not None:
                sys.stdout.flush()
            os.dup2(2, 1)

    atexit.register(mute)


def write(text: str) -> None:
    """Print `text`, with escapes for what the stream's encoding lacks.

    Raises:
        click.ClickException: it cannot be written.
    """
    if sys.stdout is None:
        raise click.ClickException("there is no standard output to write to")
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        click.echo(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # click ends quietly
    except OSError as error:
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left in the buffer goes nowhere when Python ends
        raise click.ClickException(f"the output cannot be written: {error.strerror}") from None
