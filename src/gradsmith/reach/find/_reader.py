"""What one file says of gradients: its classes, operators and declared functions, and what its names stand for."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["DECLARED", "Definition", "Facts", "read_file"]

DECLARED = ("custom_gradient", "gradient_of", "straight_through")


@dataclass(eq=False)
class Definition:
    """A class, an operator or a declared function, as it stands in a file.

    Args:
        name: Its qualified name; of an operator "library::name", empty where that is not written out.
        module: The module it stands in.
        file: The path of that.
        line: Where it begins, its decorators included.
        kind: As of `Found`; empty where that hangs on its bases.
        bases: Of a class, as they are written.
        methods: Of a class, what it defines itself.
        abstract: Its forward only raises.
    """

    name: str
    module: str
    file: str
    line: int
    kind: str = ""
    bases: tuple[str, ...] = ()
    methods: frozenset[str] = frozenset()
    abstract: bool = False


@dataclass(eq=False)
class Facts:
    """What one file says.

    Attributes:
        names: What a name may stand for, as absolute dotted names.
        stars: Modules whose names are all taken over.
        classes: Every class.
        declared: Functions that may be declared, with what declares them, as it is written.
        operators: Functions that may be operators, by their names, with what makes them one.
        registered: Operators given a gradient: the object as it is written, or the name in quotes; with the line.
        libraries: The namespace of each `Library` that is kept under a name.
    """

    names: dict[str, list[str]] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    classes: list[Definition] = field(default_factory=list)
    declared: list[tuple[str, Definition]] = field(default_factory=list)
    operators: dict[str, tuple[str, Definition]] = field(default_factory=dict)
    registered: list[tuple[str, int]] = field(default_factory=list)
    libraries: dict[str, str] = field(default_factory=dict)


def read_file(module: str, file: Path, text: bytes) -> Facts:
    """Read one file; SyntaxError, ValueError or RecursionError where it cannot be parsed."""
    reader = _Reader(module, file)
    reader.visit(ast.parse(text))
    return reader.facts


class _Reader(ast.NodeVisitor):
    def __init__(self, module: str, file: Path) -> None:
        self.module, self.file, self.facts = module, str(file), Facts()
        self.package = module if file.name == "__init__.py" else module.rpartition(".")[0]
        self.scope: list[str] = []

    # --- names ---

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._name(alias.asname or alias.name.partition(".")[0], alias.name if alias.asname else "")

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        parts = self.package.split(".") if self.package else []
        base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
        source = ".".join(filter(None, (base, node.module)))
        for alias in node.names:
            if alias.name == "*":
                self.facts.stars.append(source)
            else:
                self._name(alias.asname or alias.name, f"{source}.{alias.name}")

    def _name(self, name: str, stands_for: str) -> None:
        known = self.facts.names.setdefault(name, [])
        if (stands_for or name) not in known:
            known.append(stands_for or name)

    def _qualified(self, name: str) -> str:
        return ".".join((*self.scope, name))

    # --- definitions ---

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        methods = {n.name: n for n in node.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}
        assigned = {t.id for n in node.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)}
        forward = methods.get("forward")
        bases = tuple(text for base in node.bases for text in _written(base))
        self.facts.classes.append(
            Definition(
                self._qualified(node.name),
                self.module,
                self.file,
                min([node.lineno, *(d.lineno for d in node.decorator_list)]),
                bases=bases,
                methods=frozenset({*methods, *assigned}),
                abstract=forward is not None and _only_raises(forward),
            )
        )
        self._name(node.name, f"{self.module}.{self._qualified(node.name)}")
        self._inside(node, node.name)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        line = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        for decorator in node.decorator_list:
            self._made(node.name, decorator, line)
        self._name(node.name, f"{self.module}.{self._qualified(node.name)}")
        self._inside(node, f"{node.name}.<locals>")

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                continue
            for text in _written(node.value) if not isinstance(node.value, ast.Call) else ():
                if text.partition(".")[0] not in (target.id, "self", "cls"):
                    self._name(target.id, f"{self.module}.{text}")
            if isinstance(node.value, ast.Call):
                self._name(target.id, f"{self.module}.{self._qualified(target.id)}")
                self._made(target.id, node.value, node.lineno)
        self.generic_visit(node)

    def _made(self, name: str, by: ast.expr, line: int) -> None:
        """Note what a decorator, or the call whose result is kept under a name, may make."""
        call = by if isinstance(by, ast.Call) else None
        while isinstance(by, ast.Call):  # of `custom_op("a::b")(function)` the inner one
            call, by = by, by.func
        for text in _written(by):
            last = text.rpartition(".")[2]
            first = call.args[0] if call is not None and call.args else None
            literal = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
            if last in DECLARED:
                made = Definition(self._qualified(name), self.module, self.file, line, "declared")
                self.facts.declared.append((text, made))
            elif last in ("custom_op", "triton_op"):
                made = Definition(literal, self.module, self.file, line, "custom_op")
                self.facts.operators[self._qualified(name)] = (text, made)
            elif last == "Library" and literal:
                self.facts.libraries[name] = literal

    # --- gradients of operators ---

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, (ast.Attribute, ast.Name)):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            owner = next(iter(_written(node.func.value)), "") if isinstance(node.func, ast.Attribute) else ""
            if called == "register_autograd":
                method = owner and owner.rpartition(".")[2] != "library"
                self._registered(owner if method else node.args[0] if node.args else "", node.lineno)
            elif called == "impl" and any(_text(a).startswith("Autograd") for a in node.args):
                name = _text(node.args[0])
                library = self.facts.libraries.get(owner, "")
                self._registered(f"'{library}::{name}'" if library and "::" not in name else f"'{name}'", node.lineno)
        self.generic_visit(node)

    def _registered(self, what: ast.expr | str, line: int) -> None:
        if isinstance(what, ast.expr):
            what = f"'{_text(what)}'" if _text(what) else next(iter(_written(what)), "")
        if what:
            self.facts.registered.append((what, line))

    def _inside(self, node: ast.AST, name: str) -> None:
        self.scope.append(name)
        self.generic_visit(node)
        self.scope.pop()


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _written(node: ast.expr) -> list[str]:
    """The dotted names an expression may come to: `a.B`, `a.B if c else D`, `B[int]`, `with_metaclass(M, B)`."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [f"{owner}.{node.attr}" for owner in _written(node.value)]
    if isinstance(node, ast.Subscript):
        return _written(node.value)
    if isinstance(node, ast.IfExp):
        return [*_written(node.body), *_written(node.orelse)]
    if isinstance(node, ast.BoolOp):
        return [text for value in node.values for text in _written(value)]
    if isinstance(node, ast.Call):
        return [text for argument in node.args for text in _written(argument)]
    return []


def _only_raises(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    body = [n for n in function.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    return len(body) == 1 and isinstance(body[0], ast.Raise)
