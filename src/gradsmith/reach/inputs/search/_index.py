"""Call sites: how a package itself calls `X.apply`, with literals, defaults and annotations resolved."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["UNKNOWN", "Argument", "CallSite", "SourceIndex"]


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


@dataclass(frozen=True)
class Argument:
    """What is known of an argument at a call site: its value, the name it is passed by, its annotation."""

    value: Any = UNKNOWN
    name: str = ""
    annotation: str = ""
    starred: bool = False


@dataclass(frozen=True)
class CallSite:
    """One call of `X.apply`."""

    file: str
    line: int
    args: tuple[Argument, ...]
    kwargs: dict[str, Argument] = field(default_factory=dict)

    @property
    def known(self) -> int:
        return sum(a.value is not UNKNOWN for a in (*self.args, *self.kwargs.values()))


class SourceIndex:
    """Reads the files of a package once, at the first question."""

    def __init__(self, files: Iterable[str]) -> None:
        self.files = list(files)
        self._sites: dict[str, list[CallSite]] | None = None

    def call_sites(self, name: str) -> list[CallSite]:
        """The calls of a Function, by the last part of its name; those that say most come first."""
        if self._sites is None:
            self._sites = {}
            for file in self.files:
                self._read(file)
        return sorted(self._sites.get(name, []), key=lambda site: -site.known)

    def words(self, file: str) -> list[str]:
        """The strings that a file compares something with: the legal values of its options."""
        try:
            tree = ast.parse(Path(file).read_bytes()) if file else ast.Module([], [])
        except (OSError, SyntaxError, ValueError, RecursionError):
            return []
        compared = [side for node in ast.walk(tree) if isinstance(node, ast.Compare) for side in node.comparators]
        found = [n.value for side in compared for n in ast.walk(side) if isinstance(n, ast.Constant)]
        return list(dict.fromkeys(word for word in found if isinstance(word, str) and word.isidentifier()))[:12]

    def _read(self, file: str) -> None:
        try:
            text = Path(file).read_bytes()
            if b"apply" not in text:
                return
            tree = ast.parse(text)
        except (OSError, SyntaxError, ValueError, RecursionError):
            return
        aliases = dict(_aliases(tree))
        for call, scopes in _calls(tree, ()):
            name = _applied(call.func, aliases)
            if name:
                resolver = _Resolver(tree, scopes)
                site = CallSite(
                    file,
                    call.lineno,
                    tuple(map(resolver.argument, call.args)),
                    {k.arg: resolver.argument(k.value) for k in call.keywords if k.arg},
                )
                assert self._sites is not None
                self._sites.setdefault(name, []).append(site)


def _aliases(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """`f = X.apply` and `self.f = X.apply`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Attribute) and node.value.attr == "apply":
            for target in node.targets:
                if (left := _last(target)) and (right := _last(node.value.value)):
                    yield left, right


def _applied(func: ast.expr, aliases: dict[str, str]) -> str:
    if isinstance(func, ast.Attribute) and func.attr == "apply":
        return _last(func.value)
    return aliases.get(_last(func), "")


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _calls(node: ast.AST, scopes: tuple[ast.AST, ...]) -> Iterator[tuple[ast.Call, tuple[ast.AST, ...]]]:
    inner = (*scopes, node) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else scopes
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, inner
        yield from _calls(child, inner)


class _Resolver:
    """What a name stands for at a place in a file."""

    def __init__(self, tree: ast.Module, scopes: tuple[ast.AST, ...]) -> None:
        self.tree, self.scopes = tree, scopes

    def argument(self, node: ast.expr, depth: int = 0) -> Argument:
        if isinstance(node, ast.Starred):
            return Argument(starred=True, name=_last(node.value))
        try:
            return Argument(ast.literal_eval(node))
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
        if isinstance(node, ast.Name) and depth < 3:
            return self._name(node.id, depth)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            return self._attribute(node.attr, depth)
        if isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "device"):
            return Argument(name=node.attr)
        if isinstance(node, ast.Call):  # x.contiguous(), x.float(): still x
            inner = node.func.value if isinstance(node.func, ast.Attribute) else None
            return Argument(name=_last(inner) if inner is not None else _last(node.func))
        return Argument(name=_last(node))

    def _name(self, name: str, depth: int) -> Argument:
        for scope in reversed(self.scopes):
            if isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for parameter, default in _parameters(scope):
                    if parameter.arg == name:
                        annotation = ast.unparse(parameter.annotation) if parameter.annotation else ""
                        value = self.argument(default, depth + 1).value if default is not None else UNKNOWN
                        return Argument(value, name, annotation)
                assigned = _assigned(scope.body, name)
                if assigned is not None:
                    found = self.argument(assigned, depth + 1)
                    return Argument(found.value, name, found.annotation)
        assigned = _assigned(self.tree.body, name)
        return Argument(self.argument(assigned, depth + 1).value if assigned is not None else UNKNOWN, name)

    def _attribute(self, name: str, depth: int) -> Argument:
        """`self.x`: what `__init__` puts there."""
        owner = next((s for s in reversed(self.scopes) if isinstance(s, ast.ClassDef)), None)
        for function in owner.body if owner is not None else []:
            if isinstance(function, ast.FunctionDef) and function.name == "__init__":
                for node in ast.walk(function):
                    if isinstance(node, ast.Assign) and any(
                        isinstance(t, ast.Attribute) and t.attr == name for t in node.targets
                    ):
                        inner = _Resolver(self.tree, (*self.scopes, function))
                        found = inner.argument(node.value, depth + 1) if depth < 3 else Argument()
                        return Argument(found.value, name, found.annotation)
        return Argument(name=name)


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    yield from zip(positional, defaults, strict=True)
    yield from zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)


def _assigned(body: Iterable[ast.stmt], name: str) -> ast.expr | None:
    for node in body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            return node.value
    return None
