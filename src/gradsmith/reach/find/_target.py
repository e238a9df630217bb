"""What a target is: a file, a folder, a distribution, a package or a module; without importing any of it."""

from __future__ import annotations

import difflib
import importlib.metadata
import importlib.util
import json
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from urllib.parse import unquote, urlparse

from gradsmith.errors import UsageError
from gradsmith.reach.find._files import TESTS, Target, is_wanted, named_by_folders, named_by_root, python_files

__all__ = ["resolve"]


def resolve(target: str) -> Target:
    """What was typed. A file or folder of that name comes before what is installed.

    Raises:
        UsageError: there is nothing of that name, or no Python in it.
    """
    if not target.strip():
        raise UsageError("the name of what to check is empty; expected a package, a module, a folder or a file")
    path = Path(target)
    try:
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, ValueError) as error:
        raise UsageError(f"{target[:80]!r} is no name of a package or path: {error}") from None
    if is_file:
        found = _of_file(path)
    elif is_folder:
        found = _of_folder(path, tests=bool(TESTS.intersection(path.parts)))
    elif "/" in target or target.endswith(".py"):
        raise UsageError(f"there is no file or folder {target!r}{_close(target)}")
    else:
        installed = _of_distribution(target) or _of_module(target) or _in_src(target)
        if installed is None:
            raise UsageError(
                f"there is no package, module or folder {target!r} here{_close(target)}; install it into this "
                "environment, or give the path of its folder"
            )
        found = installed
    if not found.files:
        raise UsageError(f"{target!r} holds no Python files beside tests; there is nothing to read")
    return found


# --- files and folders -------------------------------------------------------------------------------


def _of_file(path: Path) -> Target:
    if path.suffix != ".py":
        raise UsageError(f"{str(path)!r} is no Python file; expected a file that ends in .py, a folder or a package")
    path = path.resolve()
    return named_by_folders(path.stem, "", path.parent, [path], asked=True)


def _of_folder(folder: Path, tests: bool = False) -> Target:
    folder = folder.resolve()
    return named_by_folders(folder.name, "", folder, python_files(folder, tests))


def _in_src(name: str) -> Target | None:
    """A package of a repository that is not installed."""
    folder = Path("src", *name.split("."))
    return _of_folder(folder) if folder.is_dir() else None


# --- distributions -----------------------------------------------------------------------------------


def _of_distribution(name: str) -> Target | None:
    try:
        distribution = importlib.metadata.distribution(name)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
    version = distribution.version or ""
    if (folder := _editable(distribution)) is not None:
        found = _of_project(name, folder, (distribution.read_text("top_level.txt") or "").split())
        return Target(name, version, found.root, found.search, found.files, found.only_read)
    root = Path(str(distribution.locate_file(""))).resolve()
    recorded = [f for f in distribution.files or [] if f.suffix == ".py" and ".." not in f.parts]
    places = [root.joinpath(*f.parts) for f in recorded if is_wanted(f.parts) and not _is_copy(f.parts)]
    return named_by_root(name, version, [(place, root) for place in places if place.is_file()]) if places else None


def _is_copy(parts: tuple[str, ...]) -> bool:
    """Whether it lies in what a build left behind, as in build/lib/package."""
    return len(parts) > 1 and parts[0] in ("build", "dist")


def _editable(distribution: importlib.metadata.Distribution) -> Path | None:
    """The folder of the project, where that is what is imported."""
    text = distribution.read_text("direct_url.json")
    if text:
        try:
            said = json.loads(text)
            address = urlparse(said["url"])
            if said.get("dir_info", {}).get("editable") and address.scheme == "file":
                return Path(unquote(address.path))
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
    own = Path(str(distribution.locate_file("")))
    if distribution.read_text("SOURCES.txt") and own.name not in ("site-packages", "dist-packages"):
        return own  # `setup.py develop`: the metadata lies beside the packages
    return None


def _of_project(name: str, folder: Path, tops: list[str]) -> Target:
    """The packages of a project by their names, where those are known; else whatever packages lie in its folder."""
    places = [folder / "src", folder]
    found = [next((p for p in _top(places, top) if p.exists()), None) for top in tops]
    files = [(f, p.parent) for p in found if p is not None for f in (python_files(p) if p.is_dir() else [p])]
    if files:
        return named_by_root(name, "", files)
    return _of_folder(places[0] if places[0].is_dir() else folder)


def _top(places: list[Path], top: str) -> list[Path]:
    return [p for place in places for p in (place.resolve() / top, place.resolve() / f"{top}.py")]


# --- packages and modules ----------------------------------------------------------------------------


def _of_module(name: str) -> Target | None:
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    if str(Path.cwd()) not in sys.path and "" not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        spec = _spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None:
        return None
    depth = name.count(".")
    if spec.submodule_search_locations:
        tests = bool(TESTS.intersection(name.split(".")))
        places = [Path(place).absolute() for place in spec.submodule_search_locations]
        files = [(f, place.parents[depth]) for place in places for f in python_files(place, tests)]
    elif spec.origin and spec.origin.endswith(".py"):
        file = Path(spec.origin).absolute()
        files = [(file, file.parents[depth])]
    else:
        raise UsageError(f"{name!r} is not made of Python files; nothing in it can be read")
    return named_by_root(name, _version(name.partition(".")[0]), files)


def _spec(name: str) -> ModuleSpec | None:
    """Where a module is. Unlike `importlib.util.find_spec`, this imports no package around it."""
    top, *parts = name.split(".")
    spec = importlib.util.find_spec(top)
    for part in parts:
        if spec is None or not spec.submodule_search_locations:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", list(spec.submodule_search_locations))
    return spec


def _version(top: str) -> str:
    names = set(importlib.metadata.packages_distributions().get(top, []))
    return importlib.metadata.version(names.pop()) if len(names) == 1 else ""


def _close(target: str) -> str:
    """The nearest names that there are."""
    names = [d.metadata["Name"] for d in importlib.metadata.distributions()]
    known = {name.lower(): name for name in (*names, *importlib.metadata.packages_distributions()) if name}
    beside = {p.name.lower(): p.name for p in Path.cwd().iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()}
    near = difflib.get_close_matches(target.lower(), {**known, **beside}, n=2, cutoff=0.7)
    return f"; did you mean {' or '.join({**known, **beside}[name] for name in near)}?" if near else ""
