"""Running a file as a module, and one sentence on an import that failed."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from gradsmith.check._guard import OvertimeError
from gradsmith.check.report._plain import clean
from gradsmith.errors import UsageError

__all__ = ["failure", "own_name", "run_file", "told"]

_OURS = tuple(str(Path(__file__).parents[2] / room) for room in ("check", "reach"))


def run_file(path: Path, name: str) -> ModuleType:
    """Run a file as the module of this name; the modules there are stay as they are where it fails.

    Raises:
        UsageError: it is no Python file.
        BaseException: whatever it raises.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"'{clean(str(path))}' is not a Python file")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        raise
    return sys.modules.get(name, module)  # it may have put something else in its place


def own_name(name: str) -> str:
    """The name of a module whose file is called like another module, or like none."""
    return "gradsmith_subject_" + re.sub(r"\W", "_", name)


def failure(error: BaseException, path: Path | None) -> str:
    """What came of an import and where, in one line; `path` is the file that was imported."""
    if isinstance(error, SystemExit):
        what = f"it calls sys.exit({error.code!r})"
    else:
        what = "it takes too long" if isinstance(error, OvertimeError) else told(error)
    return what + _raised_at(error, path)


def told(error: BaseException) -> str:
    """The class of an error and the beginning of what it says."""
    text = error.msg if isinstance(error, SyntaxError) else _words(error)
    line = " ".join(clean(text).split())
    return f"{type(error).__name__}: {line[:300]}" if line else type(error).__name__


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # the exception is the checked code's own
        return ""


def _raised_at(error: BaseException, path: Path | None) -> str:
    """The last line of the file itself that took part, or the last line of all."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f" ({clean(error.filename)}:{error.lineno})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    frames = [f for f in frames if not f.filename.startswith(_OURS)]
    own = [f for f in frames if path is not None and Path(f.filename) == path]
    last = (own or frames)[-1:]
    return f" ({clean(last[0].filename)}:{last[0].lineno})" if last else ""
