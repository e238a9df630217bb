"""The Python files below a folder, what each is called as a module, and which of them are never imported."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["TESTS", "Target", "is_wanted", "named_by_folders", "named_by_root", "python_files"]

TESTS = {"test", "tests"}
_FOLDERS = {"build", "dist", "node_modules", "site-packages", "__pycache__"}
_TEST_FILE = re.compile(r"(test_.*|.*_test|conftest)\.py")
_PROGRAMS = {"__main__.py", "noxfile.py"}  # whose import does what they are for


@dataclass(frozen=True)
class Target:
    """The files of a target.

    Args:
        name: What it is called.
        version: Of the distribution it belongs to; empty where there is none.
        root: The folder that its paths are told relative to.
        search: Folders its modules are imported from.
        files: For each module its file.
        only_read: Modules that are never imported: programs, and files of tests.
    """

    name: str
    version: str
    root: str
    search: tuple[str, ...]
    files: dict[str, Path]
    only_read: frozenset[str] = frozenset()


def python_files(folder: Path, tests: bool = False) -> Iterator[Path]:
    """The Python files of a folder and those below it, without tests, copies that a build made, and environments."""
    yield from _below(folder, tests, set())


def _below(folder: Path, tests: bool, seen: set[Path]) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
        real = folder.resolve()
    except OSError:
        return
    if real in seen:  # links may go in circles
        return
    seen.add(real)
    for entry in entries:
        try:
            is_folder, is_file = entry.is_dir(), entry.is_file()
        except OSError:
            continue
        if is_folder and _is_ours(entry, tests):
            yield from _below(entry, tests, seen)
        elif is_file and entry.suffix == ".py" and is_wanted((entry.name,), tests):
            yield entry


def _is_ours(folder: Path, tests: bool) -> bool:
    name = folder.name
    if name.startswith(".") or name.endswith(".egg-info") or (folder / "pyvenv.cfg").exists():
        return False
    if name in TESTS:
        return tests
    return name not in _FOLDERS or (folder / "__init__.py").exists()


def is_wanted(parts: Sequence[str], tests: bool = False) -> bool:
    """Whether a file, by its path within a package, is part of what the package offers."""
    *folders, name = parts
    if name == "gradsmith_cases.py":
        return False
    return tests or not (_TEST_FILE.fullmatch(name) or TESTS.intersection(folders))


def _is_program(file: Path) -> bool:
    if file.name == "setup.py":
        return not (file.parent / "__init__.py").exists()
    if file.name == "conf.py":
        return file.parent.name in ("doc", "docs", "source")
    return file.name in _PROGRAMS or _TEST_FILE.fullmatch(file.name) is not None


# --- what they are called ----------------------------------------------------------------------------


def named_by_root(name: str, version: str, files: Iterable[tuple[Path, Path]]) -> Target:
    """Installed files, each with the folder it is imported from: every folder on the way is a part of the name."""
    named: dict[str, Path] = {}
    search: dict[str, None] = {}
    for file, root in files:
        named.setdefault(_dotted(file.relative_to(root)), file.resolve())
        search[str(root)] = None
    return _target(name, version, next(iter(search), ""), search, named)


def named_by_folders(name: str, version: str, root: Path, files: Iterable[Path], asked: bool = False) -> Target:
    """Files of a folder: those of packages from the folder above the package, loose ones by themselves.

    Args:
        asked: Whether the file itself was asked for, and is imported whatever it is.
    """
    named: dict[str, Path] = {}
    search: dict[str, None] = {}
    loose = []
    for file in files:
        file = file.resolve()
        if top := _above_package(file, root):
            named.setdefault(_dotted(file.relative_to(top)), file)
            search[str(top)] = None
        else:
            loose.append(file)
    names = _loose_names(loose, root)
    for file in loose:
        label = names[file]
        while label in named:
            label += "_"
        named[label] = file
        search[str(root)] = None
        search[str(file.parent)] = None
    return _target(name, version, str(root), search, named, asked)


def _target(
    name: str, version: str, root: str, search: Iterable[str], files: dict[str, Path], asked: bool = False
) -> Target:
    programs = frozenset() if asked else frozenset(module for module, file in files.items() if _is_program(file))
    return Target(name, version, root, tuple(search), files, programs)


def _above_package(file: Path, root: Path) -> Path | None:
    """The folder above the outermost package a file is in; folders without `__init__.py` below it belong to it."""
    top = None
    for folder in file.parents:
        if not folder.name.isidentifier():
            break
        if (folder / "__init__.py").exists():
            top = folder.parent
        elif root not in folder.parents:
            break
    return top


def _loose_names(files: Sequence[Path], root: Path) -> dict[Path, str]:
    """By its stem, as a program that is run; with its folders where two share a stem, or where it is imported so."""
    stems = Counter(file.stem for file in files)
    dotted = {file: _dotted(file.relative_to(root)) for file in files}
    imported = set()
    if any("." in name for name in dotted.values()):
        for file in files:
            text = file.read_text(encoding="utf-8", errors="replace")
            imported.update(re.findall(r"^\s*(?:from|import)\s+([\w.]+)", text, re.MULTILINE))
            if re.search(r"^\s*from\s+\.", text, re.MULTILINE):
                imported.add(dotted[file])
    names = {}
    for file, name in dotted.items():
        stem = name.rpartition(".")[2]
        names[file] = name if stems[file.stem] > 1 or name in imported else stem
    return names


def _dotted(file: Path) -> str:
    parts = file.parts[:-1] if file.name == "__init__.py" and len(file.parts) > 1 else (*file.parts[:-1], file.stem)
    return ".".join(re.sub(r"\W", "_", part) for part in parts)
