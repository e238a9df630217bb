"""From ``FILE.py::Name`` or ``package.module:Name`` to the object, or one sentence that says why not."""

from __future__ import annotations

import ast
import contextlib
import difflib
import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from gradsmith.check.command._importing import failure, own_name, run_file, told
from gradsmith.check.report._plain import clean
from gradsmith.errors import UsageError

__all__ = ["load_subject", "search_path"]

_FORMS = "FILE.py::Name or package.module:Name"
_MOST_CANDIDATES = 20


def load_subject(text: str) -> object:
    """The object that `text` names: in a file, or in a module that Python finds; names may be dotted.

    A file is imported as ``python FILE.py`` would run it, with its folder on the search path, but not as `__main__`.

    Raises:
        UsageError: it cannot be had; the message says in one sentence why.
    """
    place, name, in_file = _split(text)
    with search_path(text):
        module = _import_file(place) if in_file else _import_module(place)
    return _look_up(module, name, place)


@contextlib.contextmanager
def search_path(*subjects: str) -> Iterator[None]:
    """Put what the named subjects may import on the search path, for a while: their folders and the current one."""
    folders = []
    for text in subjects:
        place, _, in_file = _split(text)
        folders += [str(Path(place).resolve().parent)] if in_file else []
    folders.append(os.getcwd())
    added = [folder for folder in dict.fromkeys(folders) if folder not in sys.path]
    sys.path[:0] = added
    try:
        yield
    finally:
        for folder in added:
            with contextlib.suppress(ValueError):  # the checked code may have removed it
                sys.path.remove(folder)


def _split(text: str) -> tuple[str, str, bool]:
    """File or module, name, and whether it is a file."""
    if "::" in text:
        place, _, name = text.rpartition("::")
        in_file = True
    else:
        place, _, name = text.rpartition(":") if ":" in text else (text, "", "")
        in_file = place.endswith(".py")
    if not place:
        raise UsageError(f"{_quote(text)} does not say what to check and where it is; expected {_FORMS}")
    if not name and not in_file:
        raise UsageError(f"{_quote(text)} does not say which name in it to check; expected {_FORMS}")
    if name and not all(part.isidentifier() for part in name.split(".")):
        raise UsageError(f"{_quote(name)} in {_quote(text)} is not a name; expected {_FORMS}")
    return place, name, in_file


# --- importing ---------------------------------------------------------------------------------------


def _import_file(place: str) -> ModuleType:
    path = Path(place)
    if not path.is_file():
        if path.is_dir():
            raise UsageError(f"{_quote(place)} is a folder; expected a file, as in {place}/FILE.py::Name")
        beside = [p.name for p in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise UsageError(f"there is no file {_quote(place)}{_close(path.name, beside)}")
    path = path.resolve()
    if name := _name_in_package(path):
        root = str(path.parents[name.count(".")])
        with _importing(place, path):
            sys.path.insert(0, root)
            try:
                return importlib.import_module(name)
            finally:
                with contextlib.suppress(ValueError):
                    sys.path.remove(root)
    name = path.stem
    if loaded := next((m for m in map(sys.modules.get, (name, own_name(name))) if _is_from(m, path)), None):
        return loaded  # a second subject in the same file
    if name in sys.modules or name in sys.stdlib_module_names or not name.isidentifier():
        name = own_name(name)
    with _importing(place, path):
        return run_file(path, name)


def _is_from(module: ModuleType | None, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return isinstance(file, str) and Path(file) == path


def _name_in_package(path: Path) -> str:
    """The dotted name of a file that uses relative imports in a package; empty for every other file."""
    if not (path.parent / "__init__.py").exists():
        return ""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return ""  # importing it will tell
    if path.name != "__init__.py" and not any(isinstance(n, ast.ImportFrom) and n.level for n in ast.walk(tree)):
        return ""
    parts = [] if path.name == "__init__.py" else [path.stem]
    for folder in path.parents:
        if not (folder / "__init__.py").exists():
            break
        parts.append(folder.name)
    return ".".join(reversed(parts))


def _import_module(place: str) -> ModuleType:
    if not all(part.isidentifier() for part in place.split(".")):
        raise UsageError(f"{_quote(place)} is not the name of a module; expected {_FORMS}")
    try:
        with _importing(place, None):
            return importlib.import_module(place)
    except ModuleNotFoundError as error:
        missing = error.name or place
        inside = f" (there is no module {_quote(missing)})" if missing != place else ""
        hint = f"; for a file, write {place}.py::Name" if Path(f"{place}.py").is_file() and "." not in place else ""
        raise UsageError(f"there is no module {_quote(place)}{inside}{hint}") from None


@contextlib.contextmanager
def _importing(place: str, path: Path | None) -> Iterator[None]:
    """Turn whatever comes of an import into one sentence; but for a module that is not there, asked for by name."""
    try:
        yield
    except (KeyboardInterrupt, UsageError):
        raise
    except BaseException as error:
        if path is None and isinstance(error, ModuleNotFoundError) and f"{place}.".startswith(f"{error.name}."):
            raise
        raise UsageError(f"{_quote(place)} does not import: {failure(error, path)}") from None


# --- names -------------------------------------------------------------------------------------------


def _look_up(module: ModuleType, name: str, place: str) -> object:
    candidates = _candidates(module)
    listed = f"; it has {_listed(candidates)}" if candidates else "; it defines nothing that could be checked"
    if not name:
        raise UsageError(f"the name is missing after {_quote(place)}; expected {_FORMS}{listed}")
    found: object = module
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            close = _close(name, candidates)
            raise UsageError(f"{_quote(place)} has no {_quote(name)}{close}{listed}") from None
        except Exception as error:  # noqa: BLE001  # __getattr__ of the checked code
            raise UsageError(f"looking up {_quote(name)} in {_quote(place)} fails: {told(error)}") from None
    return found


def _candidates(module: ModuleType) -> list[str]:
    """Public names of what the module itself defines and can be called; classes with a backward first."""
    found = {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == module.__name__
    }
    return sorted(found, key=lambda name: not (isinstance(found[name], type) and hasattr(found[name], "backward")))


def _close(name: str, candidates: list[str]) -> str:
    matches = difflib.get_close_matches(name.lower(), [candidate.lower() for candidate in candidates], n=3)
    close = [candidate for candidate in candidates if candidate.lower() in matches]
    return f"; did you mean {' or '.join(close[:3])}?" if close else ""


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_CANDIDATES
    return ", ".join(names[:_MOST_CANDIDATES]) + (f" and {more} more" if more > 0 else "")


def _quote(text: str) -> str:
    quoted = f"'{clean(text)}'"
    return quoted if len(quoted) <= 200 else f"{quoted[:180]}...'"
