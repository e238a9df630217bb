"""What a target is: which files, under which module names."""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlparse

from gradsmith.errors import UsageError

__all__ = ["Target", "resolve"]

# Nothing of these is part of what a package offers.
_FOLDERS = {"tests", "test", "testing_data", "build", "dist", "node_modules", "site-packages", "__pycache__"}
_FILES = re.compile(r"test_.*|.*_test|conftest|setup|noxfile|__main__|gradsmith_cases")


@dataclass(frozen=True)
class Target:
    """The files of a target.

    Args:
        name: What it is called.
        version: Of the distribution it belongs to; empty where there is none.
        root: The folder that its paths are told relative to.
        search: Folders its modules are imported from.
        files: For each module its file.
    """

    name: str
    version: str
    root: str
    search: tuple[str, ...]
    files: dict[str, Path] = field(default_factory=dict)


def resolve(target: str) -> Target:
    """What was typed: a file, a folder, a distribution, a package or a module.

    Raises:
        UsageError: there is nothing of that name.
    """
    path = Path(target)
    if path.is_file():
        if path.suffix != ".py":
            raise UsageError(f"{target!r} is no Python file; expected a file that ends in .py, a folder or a package")
        return _of_files(path.stem, path.parent, [path])
    if path.is_dir():
        return _of_folder(path)
    if "/" in target or target.endswith(".py"):
        raise UsageError(f"there is no file or folder {target!r}{_close(target)}")
    found = _of_distribution(target) or _of_module(target)
    if found is None:
        raise UsageError(
            f"there is no package, module or folder {target!r} here{_close(target)}; install it into this environment, "
            f"or give the path of its folder"
        )
    return found


# --- folders and files -------------------------------------------------------------------------------


def _of_folder(folder: Path) -> Target:
    folder = folder.resolve()
    return _of_files(folder.name, folder, _files_in(folder))


def _files_in(folder: Path) -> Iterator[Path]:
    """The Python files of a folder and those below it, without tests, builds and environments."""
    for entry in sorted(folder.iterdir()):
        if entry.is_dir():
            hidden = entry.name.startswith(".") or entry.name in _FOLDERS or entry.name.endswith(".egg-info")
            if not hidden and not (entry / "pyvenv.cfg").exists():
                yield from _files_in(entry)
        elif entry.suffix == ".py" and not _FILES.fullmatch(entry.stem):
            yield entry


def _of_files(name: str, root: Path, files: Iterable[Path]) -> Target:
    """Files under the names they are imported by: those of packages from the folder above, others by themselves."""
    named: dict[str, Path] = {}
    search: dict[str, None] = {}
    for file in map(Path.resolve, files):
        module, top = _module_of(file)
        search[str(top)] = None
        if module in named:  # two scripts of one name in two folders
            module = ".".join((*file.parent.relative_to(root.resolve()).parts, file.stem))
        named[module] = file
    return Target(name, "", str(root.resolve()), tuple(search), named)


def _module_of(file: Path) -> tuple[str, Path]:
    parts = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").exists():
        parts.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(parts)), folder


# --- what is installed -------------------------------------------------------------------------------


def _of_distribution(name: str) -> Target | None:
    try:
        distribution = importlib.metadata.distribution(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    files = [Path(str(f.locate())) for f in distribution.files or [] if f.suffix == ".py" and _wanted(f.parts)]
    if files:
        root = Path(str(distribution.locate_file("")))
        found = _of_files(name, root, [f for f in files if f.is_file()])
    elif folder := _editable(distribution):
        found = _of_folder(folder / "src" if (folder / "src").is_dir() else folder)
    else:
        return None
    return Target(name, distribution.version, found.root, found.search, found.files)


def _wanted(parts: tuple[str, ...]) -> bool:
    return not _FILES.fullmatch(Path(parts[-1]).stem) and not any(p in _FOLDERS or p == ".." for p in parts[:-1])


def _editable(distribution: importlib.metadata.Distribution) -> Path | None:
    """The folder that an editable install points to."""
    text = distribution.read_text("direct_url.json")
    address = urlparse(json.loads(text).get("url", "")) if text else None
    return Path(unquote(address.path)) if address is not None and address.scheme == "file" else None


def _of_module(name: str) -> Target | None:
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    except BaseException as error:  # noqa: BLE001  (a package may raise anything)
        words = f"{type(error).__name__}: {error}"
        raise UsageError(f"{name!r}: the package around it does not import: {words}") from None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        files = [f for place in spec.submodule_search_locations for f in _files_in(Path(place))]
    elif spec.origin and spec.origin.endswith(".py"):
        files = [Path(spec.origin)]
    else:
        raise UsageError(f"{name!r} is not made of Python files; nothing in it can be read")
    first = Path(files[0]).resolve() if files else Path.cwd()
    found = _of_files(name, _module_of(first)[1], files)
    return Target(name, _version(name.partition(".")[0]), found.root, found.search, found.files)


def _version(top: str) -> str:
    names = importlib.metadata.packages_distributions().get(top, [])
    return importlib.metadata.version(names[0]) if len(set(names)) == 1 else ""


def _close(target: str) -> str:
    known = {*importlib.metadata.packages_distributions(), *_distributions()}
    near = difflib.get_close_matches(target, known, n=2) or difflib.get_close_matches(target.lower(), known, n=2)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _distributions() -> list[str]:
    return [d.metadata["Name"] for d in importlib.metadata.distributions() if d.metadata["Name"]]
