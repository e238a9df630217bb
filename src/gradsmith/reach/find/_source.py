"""Custom gradients found by reading: what importing does not reach, and where everything stands."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Definition", "Reading", "read"]

FUNCTION = {
    "torch.autograd.Function",
    "torch.autograd.function.Function",
    "torch.autograd.function.InplaceFunction",
    "torch.autograd.function.NestedIOFunction",
}
_MODULE = {"torch.nn.Module", "torch.nn.modules.Module", "torch.nn.modules.module.Module"}
_DECLARED = ("custom_gradient", "gradient_of", "straight_through")


@dataclass
class Definition:
    """A class, an operator or a declared function, as it stands in a file."""

    name: str
    module: str
    file: str
    line: int
    bases: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()
    abstract: bool = False  # its forward only raises
    kind: str = ""


@dataclass
class Reading:
    """What was read in all files."""

    definitions: list[Definition] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)  # module: why
    telling: set[str] = field(default_factory=set)  # modules that speak of gradients

    def found(self) -> Iterator[Definition]:
        """Those that define a gradient, or stand among the bases of one that does."""
        classes = {f"{d.module}.{d.name}": d for d in self.definitions if d.bases}
        short: dict[str, list[Definition]] = {}
        for d in classes.values():
            short.setdefault(d.name.rpartition(".")[2], []).append(d)
        for d in self.definitions:
            if d.kind:
                yield d
            elif kind := _kind(d, classes, short, set()):
                d.kind = kind
                if kind == "Function" or "backward" in d.methods:
                    yield d

    def has_backward(self, d: Definition) -> bool:
        """Whether a class or one it inherits from in the package has a backward of its own."""
        classes = {f"{c.module}.{c.name}": c for c in self.definitions if c.bases}
        todo, seen = [d], set()
        while todo:
            c = todo.pop()
            if {"backward", "vjp"} & c.methods:
                return True
            seen.add(id(c))
            todo += [b for base in c.bases if (b := classes.get(base)) is not None and id(b) not in seen]
        return False


def _kind(
    d: Definition, classes: Mapping[str, Definition], short: Mapping[str, list[Definition]], seen: set[str]
) -> str:
    for base in d.bases:
        if base in FUNCTION:
            return "Function"
        if base in _MODULE:
            return "Module"
        if base in seen:
            continue
        seen.add(base)
        named = short.get(base.rpartition(".")[2], [])
        parent = classes.get(base) or (named[0] if len(named) == 1 and named[0] is not d else None)  # re-exported
        if parent is not None and (kind := _kind(parent, classes, short, seen)):
            return kind
    return ""


def read(files: Mapping[str, Path]) -> Reading:
    """Read every file of a target."""
    reading = Reading()
    for module, file in files.items():
        try:
            text = file.read_bytes()
            if not any(word in text for word in (b"autograd", b"Function", b"torch", b"gradsmith", b"backward")):
                continue
            tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            reading.unread[module] = f"it cannot be read: {type(error).__name__}: {error}"
            continue
        reader = _Reader(module, file, reading)
        reader.visit(tree)
        if any(word in text for word in (b"autograd", b"custom_op", b"gradsmith")) or b"Function" in text:
            reading.telling.add(module)
    return reading


class _Reader(ast.NodeVisitor):
    """Walks one file, and knows what the names in it stand for."""

    def __init__(self, module: str, file: Path, reading: Reading) -> None:
        self.module, self.file, self.reading = module, file, reading
        self.package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        self.names: dict[str, str] = {}
        self.scope: list[str] = []
        self.operators: dict[str, Definition] = {}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.names[name] = alias.name if alias.asname else name

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        parts = self.package.split(".")
        base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
        source = ".".join(filter(None, (base, node.module)))
        for alias in node.names:
            self.names[alias.asname or alias.name] = f"{source}.{alias.name}"

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        assigned = {t.id for n in node.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
        line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        bases = tuple(filter(None, map(self._resolved, node.bases)))
        forward = methods.get("forward")
        self._add(
            Definition(
                ".".join((*self.scope, node.name)),
                self.module,
                str(self.file),
                line,
                bases or ("object",),
                frozenset(methods) | assigned,
                forward is not None and _only_raises(forward),
            )
        )
        self.names.setdefault(node.name, f"{self.module}.{node.name}")
        self._inside(node, node.name)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            call = decorator.func if isinstance(decorator, ast.Call) else decorator
            what = self._resolved(call)
            if what.endswith("library.custom_op") and isinstance(decorator, ast.Call):
                name = next((a.value for a in decorator.args if isinstance(a, ast.Constant)), "")
                self.operators[node.name] = Definition(str(name), self.module, str(self.file), node.lineno)
            elif what.startswith("gradsmith") and what.rpartition(".")[2] in _DECLARED:
                name = ".".join((*self.scope, node.name))
                self._add(Definition(name, self.module, str(self.file), node.lineno, kind="declared"))
        self._inside(node, f"{node.name}.<locals>")

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Assign(self, node: ast.Assign) -> None:
        """An alias, or a function declared without a decorator."""
        for target in node.targets:
            if isinstance(target, ast.Name) and isinstance(node.value, (ast.Name, ast.Attribute)):
                self.names.setdefault(target.id, self._resolved(node.value))
            if isinstance(target, ast.Name) and isinstance(node.value, ast.Call):
                what = self._resolved(node.value.func)
                if what.startswith("gradsmith") and what.rpartition(".")[2] == "straight_through":
                    name = ".".join((*self.scope, target.id))
                    self._add(Definition(name, self.module, str(self.file), node.lineno, kind="declared"))
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """The registration of a gradient: of a custom_op, or of an operator by its name."""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "register_autograd":
            owner = node.func.value
            if isinstance(owner, ast.Name) and (operator := self.operators.get(owner.id)) is not None:
                operator.kind = "custom_op"
                self._add(operator)
            elif node.args and isinstance(node.args[0], ast.Constant) and "::" in str(node.args[0].value):
                name = str(node.args[0].value).partition(".")[0]
                made = [o for o in self.operators.values() if o.name == name]
                found = made[0] if made else Definition(name, self.module, str(self.file), node.lineno)
                found.kind = "custom_op" if made else "operator"
                self._add(found)
        self.generic_visit(node)

    def _inside(self, node: ast.ClassDef | ast.FunctionDef, name: str) -> None:
        self.scope.append(name)
        self.generic_visit(node)
        self.scope.pop()

    def _add(self, definition: Definition) -> None:
        if definition not in self.reading.definitions:
            self.reading.definitions.append(definition)

    def _resolved(self, node: ast.expr) -> str:
        """The dotted name an expression stands for."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id, f"{self.module}.{node.id}")
        if isinstance(node, ast.Attribute):
            return f"{self._resolved(node.value)}.{node.attr}"
        return self._resolved(node.value) if isinstance(node, ast.Subscript) else ""


def _only_raises(function: ast.FunctionDef) -> bool:
    body = [n for n in function.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    return len(body) == 1 and isinstance(body[0], ast.Raise)
