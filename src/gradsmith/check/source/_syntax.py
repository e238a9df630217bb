"""Reading the "source" observation: functions as syntax trees, grouped by the class or operator they belong to."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gradsmith.check._observation import Observations

__all__ = [
    "Owner",
    "Unit",
    "dotted",
    "inside",
    "is_none_test",
    "loads",
    "longest_path",
    "owners",
    "root_name",
    "stored_names",
]

Def = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Unit:
    """One function: its tree, and where it stands."""

    role: str
    name: str
    file: str
    line: int
    node: Def
    text: str = field(repr=False)
    wrapped: bool = False

    @property
    def params(self) -> list[str]:
        """The names of the positional parameters."""
        return [a.arg for a in (*self.node.args.posonlyargs, *self.node.args.args)]

    @property
    def star(self) -> str | None:
        """The name of `*args`, if there is one."""
        return self.node.args.vararg.arg if self.node.args.vararg else None

    def where(self, node: ast.AST) -> str:
        return f"{self.file}:{self.line + getattr(node, 'lineno', 1) - 1}"

    def quote(self, node: ast.AST) -> str:
        first = getattr(node, "lineno", 1) - 1
        lines = [line.strip() for line in self.text.splitlines()[first:]]
        # A lone bracket says nothing.
        return lines[0] if len(lines[0]) > 3 else " ".join(lines[:3])

    def decorators(self) -> Iterator[tuple[str, ast.expr]]:
        """Last name of each decorator and its tree: `torch.amp.custom_fwd(...)` gives "custom_fwd"."""
        for decorator in self.node.decorator_list:
            function = decorator.func if isinstance(decorator, ast.Call) else decorator
            yield dotted(function).rpartition(".")[2], decorator

    def body(self) -> Iterator[ast.AST]:
        """All nodes of the body, without those of functions and classes defined within."""
        for statement in self.node.body:
            yield from inside(statement)


@dataclass
class Owner:
    """A class or operator with its functions."""

    name: str
    kind: str
    units: list[Unit]
    facts: dict[str, Any]

    def unit(self, role: str) -> Unit | None:
        return next((u for u in self.units if u.role == role), None)

    @property
    def gradient(self) -> bool:
        """Whether autograd calls its `backward`."""
        return self.kind in ("Function", "custom_op")

    @property
    def makers(self) -> list[Unit]:
        """The functions that may write on `ctx` in the forward pass, each with `ctx` first."""
        setup = self.unit("setup_context")
        forward = self.unit("forward")
        if setup is not None:
            return [setup]
        return [forward] if forward is not None and self.kind == "Function" and forward.params else []

    @property
    def inputs(self) -> list[str]:
        """The names of the inputs, by position."""
        forward = self.unit("forward")
        if forward is None:
            return []
        return forward.params[1:] if self.kind == "Function" and self.unit("setup_context") is None else forward.params


@functools.lru_cache(maxsize=512)
def _parse(text: str) -> Def | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    first = tree.body[0] if tree.body else None
    return first if isinstance(first, (ast.FunctionDef, ast.AsyncFunctionDef)) else None


def owners(observations: Observations) -> Iterator[Owner]:
    """The owners in the "source" observations, in order; a plain function is an owner with one unit."""
    for observation in observations.of("source"):
        groups: dict[tuple[str, str], list[Unit]] = {}
        for raw in observation.data.get("units", []):
            node = _parse(raw["text"])
            if node is not None:
                unit = Unit(raw["role"], raw["name"], raw["file"], raw["line"], node, raw["text"], raw["wrapped"])
                key = raw["owner"] or raw["name"]
                groups.setdefault((key, raw["owner_kind"]), []).append(unit)
        facts = observation.data.get("owners", {})
        for (name, kind), units in groups.items():
            yield Owner(name, kind, units, facts.get(name, {}))


def inside(node: ast.AST) -> Iterator[ast.AST]:
    """A node and all below it, in the order of the text, without the insides of nested functions and classes."""
    yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
        return
    for child in ast.iter_child_nodes(node):
        yield from inside(child)


def dotted(node: ast.AST) -> str:
    """`a.b.c` as text; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        front = dotted(node.value)
        return f"{front}.{node.attr}" if front else ""
    return ""


def root_name(node: ast.AST) -> str | None:
    """The name an expression starts from: `x` for `x.a[0].b(y)`."""
    while True:
        if isinstance(node, ast.Name):
            return node.id
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call):
            node = node.func
        else:
            return None


def loads(node: ast.AST) -> set[str]:
    """The names read anywhere below a node, nested functions included."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}


def stored_names(target: ast.AST) -> list[str]:
    """The names an assignment target binds."""
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def is_none_test(test: ast.AST) -> tuple[str, bool] | None:
    """For `x is None` the name and True, for `x is not None` the name and False."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.left, ast.Name):
        other = test.comparators[0]
        if isinstance(other, ast.Constant) and other.value is None and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
            return test.left.id, isinstance(test.ops[0], ast.Is)
    return None


Want = Callable[[ast.AST], bool]


def longest_path(body: list[ast.stmt], want: Want) -> list[ast.AST]:
    """The wanted nodes on that way through the statements that meets most of them; a loop is run through twice."""
    through, ended = _sequence(body, want)
    return max((through or [], ended or []), key=len)


Way = tuple[list[ast.AST] | None, list[ast.AST] | None]


def _longer(a: list[ast.AST] | None, b: list[ast.AST] | None) -> list[ast.AST] | None:
    if a is None or b is None:
        return a if b is None else b
    return max((a, b), key=len)


def _sequence(body: list[ast.stmt], want: Want) -> Way:
    through: list[ast.AST] = []
    ended: list[ast.AST] | None = None
    for statement in body:
        on, end = _statement(statement, want)
        if end is not None:
            ended = _longer(ended, through + end)
        if on is None:
            return None, ended
        through = through + on
    return through, ended


def _statement(node: ast.stmt, want: Want) -> Way:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [], None
    if isinstance(node, ast.If):
        test = _expression(node.test, want)
        yes, no = _sequence(node.body, want), _sequence(node.orelse, want)
        on, end = _longer(yes[0], no[0]), _longer(yes[1], no[1])
        return None if on is None else test + on, None if end is None else test + end
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        head = _expression(node.test if isinstance(node, ast.While) else node.iter, want)
        on, end = _sequence(node.body, want)
        return head + 2 * (on or []), None if end is None else head + end
    if isinstance(node, (ast.With, ast.AsyncWith)):
        head = [n for item in node.items for n in _expression(item.context_expr, want)]
        on, end = _sequence(node.body, want)
        return None if on is None else head + on, None if end is None else head + end
    if isinstance(node, ast.Try):
        on, end = _sequence([*node.body, *node.orelse], want)
        final = _sequence(node.finalbody, want)[0] or []
        others = [_sequence(h.body, want) for h in node.handlers]
        for way in others:
            on, end = _longer(on, way[0]), _longer(end, way[1])
        return None if on is None else on + final, None if end is None else end + final
    found = _expression(node, want)
    return (None, found) if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)) else (found, None)


def _expression(node: ast.AST, want: Want) -> list[ast.AST]:
    if isinstance(node, ast.Lambda):
        return []
    if isinstance(node, ast.IfExp):
        return _expression(node.test, want) + (
            _longer(_expression(node.body, want), _expression(node.orelse, want)) or []
        )
    if isinstance(node, ast.BoolOp):
        return _expression(node.values[0], want)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        return _expression(node.generators[0].iter, want)
    here = [node] if want(node) else []
    return here + [n for child in ast.iter_child_nodes(node) for n in _expression(child, want)]
