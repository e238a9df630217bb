"""Custom gradients found by importing: what is made when a module runs, and what can be had under its name."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.autograd import Function

from gradsmith.check._guard import Clock, OvertimeError, quiet, text_of
from gradsmith.check.command._load import import_file
from gradsmith.declare import DeclaredFunction
from gradsmith.declare._private import custom_operators, operators_with_gradient
from gradsmith.errors import UsageError
from gradsmith.reach._found import Found, Package
from gradsmith.reach.find._target import Target

__all__ = ["Imported", "import_all", "load", "walk"]

_SECONDS = 60.0  # for one module


class Imported:
    """What there is after the modules of a target ran.

    Attributes:
        found: Found objects by module and name.
        failed: For each module that does not import, why.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Found] = {}
        self.failed: dict[str, str] = {}


def import_all(
    target: Target, modules: Collection[str], progress: Callable[[str], None], skip: Collection[str]
) -> Imported:
    """Import the modules, and look at what there is then."""
    sys.path[:0] = [folder for folder in target.search if folder not in sys.path]
    imported = Imported()
    operators = set(operators_with_gradient())
    for module in modules:
        if module in skip:
            continue
        progress(module)
        with quiet():
            try:
                with Clock(_SECONDS).limit(_SECONDS):
                    _import(module, target.files[module])
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001  (a module may raise anything)
                imported.failed[module] = _told(error)
    by_file = {str(file): module for module, file in target.files.items()}
    for found in (*_functions(by_file), *_registered(by_file, operators), *_named(target, by_file)):
        imported.found.setdefault((found.module, found.name), found)
    return imported


def _import(module: str, file: Path) -> Any:
    """A module by its name; a script that lies in no package by its file."""
    if "." in module or (file.parent / "__init__.py").exists() or file.name == "__init__.py":
        with contextlib.suppress(ModuleNotFoundError):
            if importlib.util.find_spec(module) is not None:
                return importlib.import_module(module)
    return import_file(str(file))


def _told(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"importing it calls sys.exit({error.code!r})"
    if isinstance(error, OvertimeError):
        return f"importing it does not come back within {_SECONDS:.0f} s"
    line = next(iter(text_of(error).strip().splitlines()), "")
    if isinstance(error, UsageError):  # which says of the file, in a sentence, what it raised
        line = line.partition("does not import: ")[2] or line
        return f"it does not import: {line}"[:300]
    return f"it does not import: {type(error).__name__}: {line}"[:300].rstrip(": ")


# --- autograd.Function -------------------------------------------------------------------------------


def _functions(by_file: Mapping[str, str]) -> Iterator[Found]:
    for cls in _subclasses(Function, set()):
        file, line = _place(cls)
        module = by_file.get(file)
        if module is None:
            continue
        reachable, why = _reach(cls, cls.__module__, cls.__qualname__)
        name = cls.__qualname__
        yield Found(name, module, file, line, "Function", reachable, why, exempt=not _has_gradient(cls))


def _subclasses(cls: type, seen: set[int]) -> Iterator[type]:
    sub: type
    for sub in type.__subclasses__(cls):
        if id(sub) not in seen:
            seen.add(id(sub))
            yield sub
            yield from _subclasses(sub, seen)


def _has_gradient(cls: type) -> bool:
    """Whether it, or a class it inherits from, has a backward; and a forward, without which it is only a base."""
    function: Any = cls
    backward = function.backward is not Function.backward or function.vjp is not Function.vjp
    return backward and function.forward is not Function.forward


def _place(thing: Any) -> tuple[str, int]:
    try:
        file = inspect.getsourcefile(thing) or ""
        return str(Path(file).resolve()) if file else "", inspect.getsourcelines(thing)[1]
    except (OSError, TypeError):
        file = getattr(sys.modules.get(getattr(thing, "__module__", "")), "__file__", None) or ""
        return str(Path(file).resolve()) if file else "", 0


def _reach(thing: Any, module: str, name: str) -> tuple[bool, str]:
    """Whether an object stands under its name in its module, and why not."""
    if "<locals>" in name:
        return False, f"made inside of {name.split('.<locals>')[0]}()"
    if walk(sys.modules.get(module), name) is thing:
        return True, ""
    return False, f"{module} has another object, or none, under the name {name}"


def walk(root: Any, name: str) -> Any:
    """The attribute of a dotted name; None where there is none."""
    for part in name.split("."):
        try:
            root = getattr(root, part)
        except Exception:  # noqa: BLE001  (`__getattr__` of the package)
            return None
    return root


# --- operators, declared functions, modules ----------------------------------------------------------


def _registered(by_file: Mapping[str, str], before: set[str]) -> Iterator[Found]:
    made = {}
    for name, definition, forward in custom_operators():
        file, line = _place(forward)
        made[name] = True
        if module := by_file.get(file):
            yield Found(name, module, file, line, "custom_op", exempt=definition._backward_fn is None)
    texts = {module: Path(file).read_text(errors="replace") for file, module in by_file.items()} if by_file else {}
    for name in sorted(set(operators_with_gradient()) - before - set(made)):
        library, _, short = name.partition("::")
        for file, module in by_file.items():
            if library in texts[module] and short in texts[module] and module in sys.modules:
                line = texts[module][: texts[module].index(short)].count("\n") + 1
                yield Found(name, module, file, line, "operator")
                break


def _named(target: Target, by_file: Mapping[str, str]) -> Iterator[Found]:
    """Declared functions, and modules with a backward of their own, by the names they have in their module."""
    for name, file in target.files.items():
        module = sys.modules.get(name)
        if module is None:
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, DeclaredFunction):
                place, line = _place(value._function)
                if by_file.get(place, name) == name:
                    yield Found(key, name, place or str(file), line, "declared")
            elif isinstance(value, type) and issubclass(value, torch.nn.Module) and "backward" in vars(value):
                place, line = _place(value)
                if by_file.get(place) == name:
                    why = "a module must be made, which takes arguments of its own"
                    yield Found(value.__qualname__, name, place, line, "Module", True, why)


# --- loading -----------------------------------------------------------------------------------------


def load(found: Found, package: Package) -> Any:
    """The object that was found.

    Raises:
        UsageError: it cannot be had; the message says why.
    """
    sys.path[:0] = [folder for folder in package.search if folder not in sys.path]
    with quiet():
        try:
            with Clock(_SECONDS).limit(_SECONDS):
                module = _import(found.module, Path(found.file))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001  (a module may raise anything)
            raise UsageError(f"{found.module}: {_told(error)}") from None
    if "::" in found.name:
        library, _, name = found.name.partition("::")
        operator = getattr(getattr(torch.ops, library), name, None)
        made = {n: d for n, d, _ in custom_operators()}
        thing = made.get(found.name, operator)
    else:
        thing = walk(module, found.name)
    if thing is None:
        raise UsageError(f"{found.module} has no {found.name}")
    return thing
