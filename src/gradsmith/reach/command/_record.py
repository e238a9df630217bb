"""`gradsmith record -- COMMAND`: run a command, and keep how it called custom gradients.

torch is not imported here: the command's own processes do the recording, each into a file of its own.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import click

from gradsmith.reach.inputs.record import _frames
from gradsmith.reach.inputs.record._frames import Frame

__all__ = ["record"]

CALLS = Path(".gradsmith", "calls")
_HOOK = Path(_frames.__file__).with_name("_site")
_FORWARDED = (signal.SIGINT, signal.SIGTERM)


class _NoCommand(click.ClickException):
    """As a shell has it."""

    exit_code = 127


@click.command(context_settings={"ignore_unknown_options": True})
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=CALLS,
    show_default=True,
    help="Where to write the calls; a file that is there is replaced.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def record(output: Path, command: tuple[str, ...]) -> None:
    """Run COMMAND and keep how it calls custom gradients, for `gradsmith check PACKAGE`.

    Every Python process that COMMAND starts is recorded. Of every autograd.Function, wherever it is made, and of every
    operator with a registered gradient, a few calls are kept. Input, output and exit code are those of COMMAND.

    \b
    gradsmith record -- pytest tests/
    gradsmith record -- python train.py --steps 3
    """
    if importlib.util.find_spec("cloudpickle") is None:
        raise click.ClickException("recording needs cloudpickle; install it with: pip install 'gradsmith[record]'")
    if shutil.which(command[0]) is None:
        raise _NoCommand(f"there is no command {command[0]!r}; write: gradsmith record -- COMMAND...")
    with tempfile.TemporaryDirectory(prefix="gradsmith-record-") as folder:
        code = _run(command, folder)
        frames = _frames.best(frame for part in sorted(Path(folder).glob("*.part")) for frame in _read(part))
        notes = sorted({line for note in Path(folder).glob("*.note") for line in note.read_text().splitlines()})
    for note in notes[:3]:
        click.echo(f"gradsmith: not recorded: {note}", err=True)
    if frames:
        try:
            _write(output, [Frame({"command": shlex.join(command)}), *frames])
        except OSError as error:
            raise click.ClickException(f"{str(output)!r} cannot be written: {error.strerror}") from None
    click.echo(_summary(frames, output), err=True)
    sys.exit(code)


def _run(command: tuple[str, ...], folder: str) -> int:
    """Run the command with the hook in each of its Pythons; its exit code as a shell gives it."""
    path = [str(_HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "GRADSMITH_RECORD": folder}
    with _passed_on() as child:
        try:
            child.append(subprocess.Popen(command, env=environment))
        except OSError as error:
            raise click.ClickException(f"{command[0]!r} does not start: {error.strerror}") from None
        code: int = child[0].wait()
    return code if code >= 0 else 128 - code


@contextlib.contextmanager
def _passed_on() -> Iterator[list[Any]]:
    """Signals are the command's affair while it runs; Ctrl-C in a terminal reaches it without our help."""
    child: list[Any] = []

    def hand_on(number: int, frame: FrameType | None) -> None:
        if child and not (number == signal.SIGINT and _in_foreground()):
            child[0].send_signal(number)

    before = {number: signal.signal(number, hand_on) for number in _FORWARDED}
    try:
        yield child
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether a terminal sends its Ctrl-C to this process and its children alike."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _read(part: Path) -> Iterator[Frame]:
    with contextlib.suppress(OSError):
        yield from _frames.read(part)


def _write(output: Path, frames: list[Frame]) -> None:
    _frames.write(output, frames)
    ignore = output.parent / ".gitignore"
    if output == CALLS and not ignore.exists():
        ignore.write_text("*\n")  # recorded calls are large, and are made again at will


def _summary(frames: list[Frame], output: Path) -> str:
    """What came of it, and what to do next, on one line."""
    saved = [frame for frame in frames if not frame.why]
    lost = {frame.id for frame in frames} - {frame.id for frame in saved}
    if not frames:
        kept = f"; {output} is left as it was" if output.exists() else ""
        return (
            "gradsmith: nothing was recorded: no custom gradient was called in a Python process of the command that "
            f"could be watched (compiled calls, `python -I` and other environments cannot be){kept}"
        )
    unsaved = f" ({len(lost)} could not be saved, and are listed by the check)" if lost else ""
    functions = len({frame.id for frame in frames})
    option = "" if output == CALLS else f" --calls {shlex.quote(str(output))}"
    said = f"{_count(functions, 'function')}, {_count(len(saved), 'call')} in {output}{unsaved}"
    return f"gradsmith: recorded {said}; next: gradsmith check {_target(frames)}{option}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _target(frames: list[Frame]) -> str:
    """The package that most of the functions are from; of a script its file."""
    roots = Counter(frame.id.partition(":")[0].partition(".")[0] for frame in frames)
    root = roots.most_common(1)[0][0]
    scripts = [str(f.head.get("file", "")) for f in frames if f.id.startswith(f"{root}:") and f.head.get("file")]
    if scripts and not Path(scripts[0]).name.startswith("__init__"):
        return shlex.quote(os.path.relpath(scripts[0]))
    return root
