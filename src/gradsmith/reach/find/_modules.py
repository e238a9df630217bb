"""Importing the modules of a target one by one, whatever they do meanwhile."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

from gradsmith.check._guard import Clock, quiet
from gradsmith.check.command._importing import failure, own_name, run_file
from gradsmith.reach.find._files import Target

__all__ = ["Modules", "import_one", "own_file"]

_SECONDS = 60.0  # for one module

Told = Callable[[str], None]


class Modules:
    """What importing came to.

    Attributes:
        there: The modules that were imported, by name.
        failed: Why a module was not; one whose package was not imported does not count again.
        ended: Modules that are not imported, since that ends the process.
    """

    def __init__(self, target: Target, skip: Collection[str]) -> None:
        self.target = target
        self.there: dict[str, Any] = {}
        self.failed: dict[str, str] = {}
        self.ended = set(skip)

    def import_all(self, names: Collection[str], progress: Told) -> None:
        """Import these, each after the packages it is in. `progress` hears of each before it runs, also of those of
        the target that another one imports."""
        for name in self.ended - set(sys.modules):
            sys.modules[name] = None  # type: ignore[assignment]  # others that import it get an ImportError
        watch = _Watch(self.target.files, progress)
        sys.meta_path.insert(0, watch)
        try:
            for name in names:
                for one in (*_packages(name, self.target.files), name):
                    if one not in self.there and not self.why(one):
                        self._import(one, watch)
        finally:
            sys.meta_path.remove(watch)
        for name, file in self.target.files.items():  # those that came along
            if name not in self.there and _is_from(module := sys.modules.get(name), file):
                self.there[name] = module

    def why(self, name: str) -> str:
        """Why a module could not be imported; empty where it could, or where nobody tried."""
        for one in (*_packages(name, self.target.files), name):
            what = "its module" if one == name else f"its package {one}"
            if one in self.ended:
                return f"importing {what} ends the process"
            if one in self.failed:
                return f"{what} {self.failed[one]}"
        return ""

    def _import(self, name: str, watch: _Watch) -> None:
        if _is_from(module := sys.modules.get(name), self.target.files[name]):
            self.there[name] = module
            return
        with quiet(), watch.running(name):
            try:
                with Clock(_SECONDS).limit(_SECONDS):
                    self.there[name] = import_one(name, self.target.files[name], self.target.files.values())
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  (a module may raise anything)
                self.failed[name] = f"does not import: {failure(error, self.target.files[name])}"


def _packages(name: str, files: Collection[str]) -> list[str]:
    """The packages of the target that a module is in, outermost first."""
    parts = name.split(".")
    return [p for cut in range(1, len(parts)) if (p := ".".join(parts[:cut])) in files]


class _Watch(importlib.abc.MetaPathFinder):
    """Tells of each module of the target that begins to run, and of the one that goes on when it is done."""

    def __init__(self, names: Collection[str], told: Told) -> None:
        self._names, self._told = names, told
        self._running: list[str] = []

    @contextlib.contextmanager
    def running(self, name: str) -> Iterator[None]:
        if self._running[-1:] == [name]:  # by its file
            yield
            return
        self._running.append(name)
        self._told(name)
        try:
            yield
        finally:
            self._running.pop()
            if self._running:
                self._told(self._running[-1])

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self._names:
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        spec = next(filter(None, (other.find_spec(name, path, target) for other in others)), None)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with self.running(name):
                    run(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


# --- one module --------------------------------------------------------------------------------------


def import_one(name: str, file: Path, ours: Collection[Path] = ()) -> Any:
    """A module by its name, where Python finds this file under it; else by its file.

    Args:
        name: As in `Target.files`.
        file: Where it is.
        ours: All files of the target. Loose files of several folders may import others of the same name.

    Raises:
        BaseException: whatever it raises.
    """
    if _is_from(module := sys.modules.get(name), file):
        return module
    depth = name.count(".") + (file.name == "__init__.py")
    top = str(file.parents[depth])
    if any((folder / "__init__.py").exists() for folder in list(file.parents)[:depth]):
        _put_on_path(top, first=True)
        try:
            return _checked(importlib.import_module(name), name, file)
        except (Exception, SystemExit):
            if _is_from(module := sys.modules.get(name), file):
                return module  # it is whole; a package around it failed later
            raise
    for module in _loaded():  # by another loose file, under the name that one knows
        if _is_from(module, file):
            return module
    _put_on_path(top)
    if _finds(name, file):
        with _beside(file, ours):
            return _checked(importlib.import_module(name), name, file)
    with _beside(file, ours):
        return run_file(file, own_name(name) if name in sys.modules or not _is_free(name) else name)


def _put_on_path(folder: str, first: bool = False) -> None:
    if folder not in sys.path:
        sys.path.insert(0 if first else len(sys.path), folder)


@contextlib.contextmanager
def _beside(file: Path, ours: Collection[Path]) -> Iterator[None]:
    """With the folder of a loose file first on the search path, as if it was run; it stays on it, as the last."""
    folder = file.parent
    for name in {f.stem for f in ours if f.parent == folder}:
        loaded = own_file(sys.modules.get(name))
        if loaded is not None and loaded in ours and loaded.parent != folder:
            del sys.modules[name]
    _put_on_path(str(folder))
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(folder))


def _finds(name: str, file: Path) -> bool:
    """Whether Python finds this very file under a name."""
    path: list[str] | None = None
    full = ""
    for part in name.split("."):
        full = f"{full}.{part}".lstrip(".")
        if full in sys.modules and not isinstance(sys.modules[full], ModuleType):
            return False
        spec = PathFinder.find_spec(full, path)
        if spec is None:
            return False
        path = list(spec.submodule_search_locations or [])
    return name not in sys.modules and spec is not None and bool(spec.origin) and Path(str(spec.origin)) == file


def _is_free(name: str) -> bool:
    return name.partition(".")[0] not in sys.stdlib_module_names and all(p.isidentifier() for p in name.split("."))


def _loaded() -> Iterator[ModuleType]:
    yield from [module for module in sys.modules.values() if isinstance(module, ModuleType)]


def _is_from(module: Any, file: Path) -> bool:
    if not isinstance(module, ModuleType) or module.__name__ == "__main__":
        return False
    place = vars(module).get("__file__")
    return isinstance(place, str) and place.endswith(file.name) and own_file(module) == file


def own_file(module: Any) -> Path | None:
    """The file of a module, links followed."""
    place = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    return Path(place).resolve() if isinstance(place, str) else None


def _checked(module: Any, name: str, file: Path) -> Any:
    other = own_file(module)
    if other is not None and other != file:
        raise ImportError(f"under the name {name} another file is imported, {other}")
    return module
