"""`[tool.gradsmith]` of a `pyproject.toml`: what a project always asks of the check of a package.

::

    [tool.gradsmith]
    select = ["GS1", "GS2"]                  # rules that are reported
    ignore = ["GS402"]                       # rules that are not
    fast = true
    jobs = 2
    timeout = 30                             # seconds for each function
    tries = 200                              # calls the search for inputs makes
    baseline = "gradsmith-baseline.json"     # files are relative to this one
    cases = ["tests/more_cases.py"]
    calls = ".gradsmith/calls"               # what `gradsmith record` wrote
    exclude = ["mypackage.legacy:*"]         # functions that are not checked
    waive = { "mypackage.ops:Clip" = ["linearity"] }

What is given on the command line wins.
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gradsmith.check._findings import require_codes
from gradsmith.check.rules import RULES
from gradsmith.errors import UsageError
from gradsmith.reach._options import Options

__all__ = ["Config", "options_of", "read_config"]

_BY_NAME = {rule.name: rule.code for rule in RULES}
_MOST_JOBS = 256
_MOST_SECONDS = 1e6


@dataclass(frozen=True)
class Config:
    """What the file says; what it does not say is None or empty.

    Args:
        file: Where it was read; None where there is no such file or it says nothing.
        options: Those of `Options` that it gives.
        jobs: Functions checked at once.
        baseline: The file of known findings.
        exclude: Patterns of ids that are not checked.
    """

    file: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    jobs: int = 1
    baseline: Path | None = None
    exclude: tuple[str, ...] = ()


def read_config(start: Path) -> Config:
    """The table of the nearest `pyproject.toml` that has one, from the folder `start` upwards.

    Raises:
        UsageError: the file cannot be read, or a key or a value in it means nothing.
    """
    start = start.absolute()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file() and (table := _table(file)) is not None:
            return _config(file, table)
    return Config()


def options_of(config: Config, **given: Any) -> Options:
    """The options of the check: those given win over the file. None and () give none; other names are passed over."""
    options = replace(Options(), **config.options)
    known = {name: value for name, value in given.items() if name in Options.__dataclass_fields__}
    return replace(options, **{name: value for name, value in known.items() if value is not None and value != ()})


def _table(file: Path) -> dict[str, Any] | None:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{file} cannot be read: {error}") from None
    tool = data.get("tool")
    table = tool.get("gradsmith") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise UsageError(f"{file}: tool.gradsmith: got {_kind(table)}; expected a table, [tool.gradsmith]")
    return table


def _config(file: Path, table: dict[str, Any]) -> Config:
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in _READ:
            near = difflib.get_close_matches(key.lower().replace("-", "_"), _READ, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"it knows {', '.join(_READ)}"
            raise UsageError(f"{file}: tool.gradsmith has no key {key!r}; {hint}")
        values[key] = _READ[key](_Place(file, f"tool.gradsmith.{key}"), value)
    own = {key: values.pop(key) for key in ("jobs", "baseline", "exclude") if key in values}
    return Config(file, values, **own)


# --- values ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """The file and the key a value stands at."""

    file: Path
    key: str

    def refused(self, value: Any, expected: str) -> UsageError:
        return UsageError(f"{self.file}: {self.key}: got {_kind(value)}; expected {expected}")


def _kind(value: Any) -> str:
    """A value with the word TOML has for its kind."""
    words = {bool: "the truth value", int: "the number", float: "the number", str: "the string", list: "the array"}
    shown = str(value).lower() if isinstance(value, bool) else repr(value)
    return f"{words.get(type(value), 'the table' if isinstance(value, dict) else type(value).__name__)} {shown[:60]}"


def _flag(place: _Place, value: Any) -> bool:
    if not isinstance(value, bool):
        raise place.refused(value, "true or false")
    return value


def _whole(most: float, word: str) -> Callable[[_Place, Any], int]:
    def read(place: _Place, value: Any) -> int:
        if type(value) is not int or not 1 <= value <= most:
            raise place.refused(value, f"a whole number from 1{word}")
        return value

    return read


def _seconds(place: _Place, value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= _MOST_SECONDS:
        raise place.refused(value, f"seconds above 0, and at most {_MOST_SECONDS:g}")
    return float(value)


def _strings(place: _Place, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
        raise place.refused(value, "an array of strings")
    return tuple(value)


def _codes(place: _Place, value: Any) -> tuple[str, ...]:
    codes = _strings(place, value)
    _require(place, select=codes)
    return tuple(_BY_NAME.get(code.strip().lower(), code.strip().upper()) for code in codes)


def _waived(place: _Place, value: Any) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise place.refused(value, 'a table of arrays, such as { "pkg.ops:Clip" = ["linearity"] }')
    waived = {}
    for function, laws in value.items():
        inner = _Place(place.file, f'{place.key}."{function}"')
        waived[function] = _strings(inner, laws)
        _require(inner, waive=waived[function])
    return waived


def _require(place: _Place, **codes: tuple[str, ...]) -> None:
    given: dict[str, tuple[str, ...]] = {"waive": (), "select": (), "ignore": (), **codes}
    try:
        require_codes(**given)
    except UsageError as error:
        raise UsageError(f"{place.file}: {place.key}: {str(error).partition(': ')[2]}") from None


def _path(place: _Place, value: Any) -> Path:
    if not isinstance(value, str) or not value.strip():
        raise place.refused(value, "the name of a file, relative to this one")
    return place.file.parent / value


def _paths(place: _Place, value: Any) -> tuple[str, ...]:
    return tuple(str(place.file.parent / name) for name in _strings(place, value))


_READ: dict[str, Callable[[_Place, Any], Any]] = {
    "select": _codes,
    "ignore": _codes,
    "fast": _flag,
    "jobs": _whole(_MOST_JOBS, f" to {_MOST_JOBS}"),
    "timeout": _seconds,
    "tries": _whole(math.inf, ""),
    "baseline": _path,
    "cases": _paths,
    "calls": lambda place, value: str(_path(place, value)),
    "exclude": _strings,
    "waive": _waived,
}
