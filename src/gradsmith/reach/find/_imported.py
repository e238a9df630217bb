"""Custom gradients among what importing made: Functions, operators, declared functions, modules with a backward."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.autograd import Function

from gradsmith.declare import DeclaredFunction
from gradsmith.declare._private import custom_operators, operator_facts, operators_with_gradient
from gradsmith.reach._found import Found
from gradsmith.reach.find._load import walk
from gradsmith.reach.find._modules import Modules, own_file
from gradsmith.reach.find._names import Names
from gradsmith.reach.find._source import Reading

__all__ = ["Imported"]

_TORCHS_OWN = frozenset(operators_with_gradient())  # those there are before anything of the package is imported


class Imported:
    """What stands in the modules of a target, once they are imported.

    Attributes:
        found: By module and name.
        covered: Modules and names of definitions whose objects were found under another name.
    """

    def __init__(self, modules: Modules, reading: Reading) -> None:
        self._there, self._reading, self._why = modules.there, reading, modules.why
        self._module_of = {str(file): module for module, file in modules.target.files.items()}
        self._names = Names(modules.there)
        self.found: dict[tuple[str, str], Found] = {}
        self.covered: set[tuple[str, str]] = set()
        for cls in _subclasses(Function, set()):
            self._function(cls)
        self._operators()
        for thing in self._names.things.values():
            if issubclass(type(thing), DeclaredFunction):
                self._declared(thing)
            elif torch.nn.Module in type.mro(thing):
                self._module(thing)

    def _keep(self, found: Found) -> None:
        before = self.found.get((found.module, found.name))
        if before is None or (found.reachable and not before.reachable):
            self.found[(found.module, found.name)] = found

    # --- autograd.Function -------------------------------------------------------------------------

    def _function(self, cls: Any) -> None:
        module, line = self._place(cls)
        if module is None or not self._is_ours(cls, module):
            return
        name = cls.__qualname__
        there = self._there.get(module)
        exempt = not _has_gradient(cls) or self._is_abstract(cls, module, name)
        if "<locals>" not in name and there is not None and walk(there, name) is cls:
            self._keep(Found(name, module, self._file(module), line, "Function", exempt=exempt))
            return
        self.covered.add((module, name))
        if known := self._names.of(cls, module):  # what a function of the package made, and a module keeps
            holder, held = known[0]
            at = _assigned_at(Path(self._file(holder)), held) or (line if holder == module else 0)
            self._keep(Found(held, holder, self._file(holder), at, "Function", exempt=exempt))
            return
        if "<locals>" in name:
            why = f"made inside of {name.split('.<locals>')[0]}()"
        else:
            why = (there is None and self._why(module)) or f"{module} does not keep it under the name {name}"
        self._keep(Found(name, module, self._file(module), line, "Function", False, why, exempt))

    def _is_ours(self, cls: Any, module: str) -> bool:
        """Not one that is left of a module of that name which another has taken the place of."""
        if walk(self._there.get(module), cls.__qualname__) is cls or self._names.of(cls):
            return True
        places = [str(Path(code.co_filename).resolve()) for base in type.mro(cls) for code in _codes(base)]
        return any(place in self._module_of for place in places)

    def _is_abstract(self, cls: Any, module: str, name: str) -> bool:
        definition = self._reading.definitions.get((module, name))
        return definition is not None and definition.abstract and bool(type.__subclasses__(cls))

    def _place(self, thing: Any) -> tuple[str | None, int]:
        """The module a class is written in, and the line."""
        codes = _codes(thing)
        places = [str(Path(code.co_filename).resolve()) for code in codes]
        loaded = own_file(sys.modules.get(thing.__module__))
        module = self._module_of.get(str(loaded)) or next(filter(None, map(self._module_of.get, places)), None)
        if module is None:
            return None, 0
        known = self._reading.lines(module, thing.__qualname__)
        first = min((code.co_firstlineno for code in codes), default=0)
        before = [line for line in known if line <= first]
        return module, max(before) if before else known[0] if known else first

    def _file(self, module: str) -> str:
        return str(self._reading.files[module])

    # --- operators, declared functions, modules ----------------------------------------------------

    def _operators(self) -> None:
        made = set()
        for name, definition, function in custom_operators():
            made.add(name)
            code = _code(function)
            module = self._module_of.get(str(Path(code.co_filename).resolve())) if code else None
            if module is not None and code is not None:
                line = self._line(module, name) or code.co_firstlineno
                exempt = "backward" not in operator_facts(definition).parts
                self._keep(Found(name, module, self._file(module), line, "custom_op", exempt=exempt))
        for name in sorted(set(operators_with_gradient()) - _TORCHS_OWN - made):
            if (place := self._mentioned(name)) is not None:
                module, line = place
                self._keep(Found(name, module, self._file(module), line, "operator"))

    def _mentioned(self, name: str) -> tuple[str, int] | None:
        """Where an operator is registered: as it is written, or where the parts of its name stand in quotes."""
        for module, known in self._reading.definitions:
            if known == name and module in self._there:
                return module, self._line(module, name)
        library, _, short = name.partition("::")
        whole = re.compile(rf"""["'](?:{re.escape(library)}::)?{re.escape(short)}(?:["'(.])""")
        for module in self._there:
            text = self._reading.text(module)
            if f'"{library}' in text.replace("'", '"') and (found := whole.search(text)):
                return module, text[: found.start()].count("\n") + 1
        return None

    def _declared(self, thing: Any) -> None:
        code = _code(inspect.unwrap(thing._function)) if callable(thing._function) else None
        home = self._module_of.get(str(Path(code.co_filename).resolve())) if code else None
        known = self._names.of(thing, home or str(getattr(thing, "__module__", "")))
        written = [place for place in known if place in self._reading.definitions]
        module, name = (written or known)[0]
        line = self._line(module, name) or (code.co_firstlineno if code and home == module else 0)
        self.covered.add((module, f"{getattr(thing, '__qualname__', name)}"))
        self._keep(Found(name, module, self._file(module), line, "declared"))

    def _module(self, cls: Any) -> None:
        module, line = self._place(cls)
        if module is not None and walk(self._there.get(module), cls.__qualname__) is cls:
            why = "a module must be made, which takes arguments of its own"
            self._keep(Found(cls.__qualname__, module, self._file(module), line, "Module", True, why))

    def _line(self, module: str, name: str) -> int:
        definition = self._reading.definitions.get((module, name))
        return definition.line if definition is not None else 0


def _subclasses(cls: type, seen: set[int]) -> Iterator[Any]:
    sub: type
    for sub in type.__subclasses__(cls):
        if id(sub) not in seen:
            seen.add(id(sub))
            yield sub
            yield from _subclasses(sub, seen)


def _has_gradient(cls: Any) -> bool:
    """Whether it, or a class it inherits from, goes backward; and forward, without which it is only a base."""
    backward = cls.backward is not Function.backward or cls.vjp is not Function.vjp
    return backward and cls.forward is not Function.forward


def _codes(cls: type) -> list[Any]:
    return [code for name in ("backward", "forward", "vjp") if (code := _code(vars(cls).get(name)))]


def _code(function: Any) -> Any:
    function = function.__func__ if isinstance(function, (staticmethod, classmethod)) else function
    try:
        return getattr(inspect.unwrap(function), "__code__", None)
    except (ValueError, AttributeError, TypeError):
        return None


def _assigned_at(file: Path, name: str) -> int:
    """The line on which a name is first given to something."""
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    found = re.search(rf"^[ \t]*{re.escape(name.rpartition('.')[2])}\b[^\n=]*=", text, re.MULTILINE)
    return text[: found.start()].count("\n") + 1 if found else 0
