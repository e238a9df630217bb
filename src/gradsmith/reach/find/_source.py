"""Custom gradients found by reading: where everything stands, what importing does not reach, and what to import.

Most files of a package say nothing of gradients. They are parsed only where a name leads into them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gradsmith.reach.find._reader import Definition, Facts, read_file

__all__ = ["Reading"]

_FUNCTION = {
    "torch.autograd.Function",
    *(f"torch.autograd.function.{name}" for name in ("Function", "InplaceFunction", "NestedIOFunction")),
}
_MODULE = {"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"}
_GRADIENT = {"backward", "vjp"}
_MOST_STEPS = 50  # from name to name; names that are given in a circle would go on for ever
_TELLING = re.compile(
    rb"\.Function\b|autograd[.\s]+(function\s+)?import|custom_op|triton_op|register_autograd|\bLibrary\b|gradsmith"
    rb"|def\s+(backward|vjp|setup_context)\b|\n\s+(backward|vjp)\s*=|\bInplaceFunction\b|\bNestedIOFunction\b"
)


class Reading:
    """What the files of a target say.

    Attributes:
        unread: Modules that cannot be parsed, and why.
        telling: Modules that may define a gradient, or keep one that a function of another makes.
        definitions: Every gradient there is, by module and name.
        inherited: Names of modules and classes that others inherit from.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = files
        self.unread: dict[str, str] = {}
        self._facts: dict[str, Facts | None] = {}
        self._texts = {module: _bytes(file) for module, file in files.items()}
        self.telling = {module for module, text in self._texts.items() if _TELLING.search(text)}
        self._classes: dict[str, Definition] = {}
        self.inherited: set[tuple[str, str]] = set()
        for module in self.telling:
            self._read(module)
        self.definitions: dict[tuple[str, str], Definition] = {}
        self._find_classes()
        self._find_operators()
        self._find_declared()
        self.telling |= self._keepers()

    def has_gradient(self, definition: Definition) -> bool:
        """Whether a class, or one it inherits from, goes backward; taken to where that is unknown."""
        todo, seen = [definition], {id(definition)}
        while todo:
            now = todo.pop()
            if _GRADIENT & now.methods:
                return True
            for base in now.bases:
                meanings = set(self._meanings(now.module, base))
                parents = [self._classes[m] for m in meanings if m in self._classes]
                if not parents and not meanings & (_FUNCTION | {f"{now.module}.object"}):
                    return True
                todo += [p for p in parents if id(p) not in seen]
                seen.update(map(id, parents))
        return False

    def lines(self, module: str, name: str) -> list[int]:
        """Where classes of this name begin: there may be two, in the branches of an `if`."""
        facts = self._read(module)
        return [d.line for d in facts.classes if d.name == name] if facts else []

    def text(self, module: str) -> str:
        return self._texts[module].decode("utf-8", "replace")

    # --- classes -----------------------------------------------------------------------------------

    def _find_classes(self) -> None:
        """Classes that are Functions; files are parsed until no file is left that inherits from one of them."""
        names: set[str] = set()
        while True:
            for definition in list(self._classes.values()):
                key = (definition.module, definition.name)
                if key in self.definitions:
                    continue
                kind = self._kind(definition, set())
                if kind == "Function" or (kind == "Module" and "backward" in definition.methods):
                    definition.kind = kind
                    self.definitions[key] = definition
            new = {d.name.rpartition(".")[2] for d in self.definitions.values() if d.kind == "Function"} - names
            new |= self._aliases(new)
            if not new:
                return
            names |= new
            heir = re.compile(rb"class\s+\w+\s*\([^)]*\b(?:%s)\b" % _any_of(new))
            for module, text in self._texts.items():
                if heir.search(text):
                    self._read(module)
                    self.telling.add(module)

    def _aliases(self, names: set[str]) -> set[str]:
        """Other names they are given, by an import or an assignment."""
        if not names:
            return set()
        given = re.compile(
            rb"\b(?:%(names)s)\s+as\s+(\w+)|^\s*(\w+)\s*=\s*(?:[\w.]+\.)?(?:%(names)s)\s*$"
            % {b"names": _any_of(names)},
            re.MULTILINE,
        )
        found = {one for text in self._texts.values() for pair in given.findall(text) for one in pair if one}
        return {name.decode() for name in found}

    def _kind(self, definition: Definition, seen: set[int]) -> str:
        for base in definition.bases:
            meanings = set(self._meanings(definition.module, base))
            if meanings & _FUNCTION:
                return "Function"
            if meanings & _MODULE:
                return "Module"
            for parent in (self._classes[m] for m in meanings if m in self._classes):
                if id(parent) in seen or parent is definition:
                    continue
                seen.add(id(parent))
                if kind := self._kind(parent, seen):
                    self.inherited.add((parent.module, parent.name))
                    return kind
        return ""

    # --- operators and declared functions ----------------------------------------------------------

    def _find_operators(self) -> None:
        made: dict[str, Definition] = {}
        for module, facts in self._parsed():
            for name, (by, definition) in facts.operators.items():
                if any(m.startswith("torch.") or "library" in m for m in self._meanings(module, by)):
                    made[f"{module}.{name}"] = definition
        by_name = {d.name: d for d in made.values() if d.name}
        for module, facts in self._parsed():
            for what, line in facts.registered:
                if what.startswith("'"):
                    name = what.strip("'").partition(".")[0]
                    if "::" in name:
                        new = Definition(name, module, str(self.files[module]), line, "operator")
                        self._keep(by_name.get(name, new))
                else:
                    for meaning in self._meanings(module, what):
                        if meaning in made:
                            self._keep(made[meaning])

    def _find_declared(self) -> None:
        for module, facts in self._parsed():
            for by, definition in facts.declared:
                if any(m.startswith("gradsmith.") for m in self._meanings(module, by)):
                    self._keep(definition)

    def _keep(self, definition: Definition) -> None:
        if definition.name:
            self.definitions.setdefault((definition.module, definition.name), definition)

    def _keepers(self) -> set[str]:
        """Modules that take something from one in which functions make gradients, and may keep what they make."""
        makers = {module for module, name in self.definitions if "<locals>" in name}
        names = {module.rpartition(".")[2].encode() for module in makers}
        found = set()
        for module, text in self._texts.items():
            if not any(name in text for name in names) or (facts := self._read(module)) is None:
                continue
            taken = [*facts.stars, *(meaning for meanings in facts.names.values() for meaning in meanings)]
            if any(f"{meaning}.".startswith(f"{maker}.") for meaning in taken for maker in makers):
                found.add(module)
        return found

    # --- what names mean ---------------------------------------------------------------------------

    def _meanings(self, module: str, name: str) -> Iterator[str]:
        """The absolute names that a name in a module may stand for, through imports and aliases."""
        todo, seen = [(module, name)], {(module, name)}
        while todo:
            where, what = todo.pop()
            facts = self._read(where)
            first, dot, rest = what.partition(".")
            known = facts.names.get(first, []) if facts else []
            absolute = [f"{m}{dot}{rest}" for m in known] or [f"{where}.{what}"]
            if facts and not known:
                absolute += [f"{star}.{what}" for star in facts.stars]
            for meaning in absolute:
                yield meaning
                holder = self._holder(meaning)
                if holder and holder not in seen and len(seen) < _MOST_STEPS:
                    seen.add(holder)
                    todo.append(holder)

    def _holder(self, name: str) -> tuple[str, str] | None:
        """The module of the target that a dotted name goes through, and what is left of the name."""
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            if (module := ".".join(parts[:cut])) in self.files:
                return module, ".".join(parts[cut:])
        return None

    def _read(self, module: str) -> Facts | None:
        if module not in self._facts and module in self.files:
            self._facts[module] = None
            try:
                facts = read_file(module, self.files[module], self._texts[module])
            except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
                if module in self.telling:
                    self.unread[module] = f"it cannot be read: {type(error).__name__}: {error}"
                return None
            self._facts[module] = facts
            for definition in facts.classes:
                self._classes.setdefault(f"{module}.{definition.name}", definition)
        return self._facts.get(module)

    def _parsed(self) -> list[tuple[str, Facts]]:
        return [(module, facts) for module, facts in self._facts.items() if facts is not None]


def _any_of(names: set[str]) -> bytes:
    return "|".join(map(re.escape, sorted(names))).encode()


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""
