"""Which names of a function stand for a given tensor's memory, followed through its statements, and who writes to it.

A value is known only by its *origins*: "gradient", "saved", "input:x" for the memory it shares. Whatever makes a new
tensor has none. Where two ways through the text meet, only what holds on both is kept, so that a name is reported only
if it is an alias however the function runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradsmith.check.source._origin import HIDDEN, RAW, Origins, State, Value, changes, meet
from gradsmith.check.source._syntax import dotted, is_none_test, stored_names

__all__ = ["Change", "Walk"]


# What functions are called by: `torch.relu_(x)` changes x, `y.mul_(x)` does not.
MODULES = {"torch", "F", "nn", "functional", "init", "np", "numpy"}


@dataclass(frozen=True)
class Change:
    """A write to memory that is shared: where, how it is written in the text, and with whom."""

    node: ast.AST
    how: str
    value: Value


class Walk(Origins):
    """Follows a function body.

    Args:
        start: What the parameters are.
        attributes: What attributes of parameters are, by their text: `{"ctx.saved_tensors": ...}`.

    After `run`, `changes` holds the writes and `seen` the value of each expression statement and name when it was met.
    """

    def __init__(self, start: State, attributes: State | None = None) -> None:
        super().__init__(attributes)
        self.start = start
        self.changes: list[Change] = []
        self.seen: list[tuple[ast.expr, Value]] = []
        self.quiet = 0

    def run(self, body: Sequence[ast.stmt]) -> Walk:
        self.block(body, dict(self.start))
        return self

    # statements -------------------------------------------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt], state: State | None) -> State | None:
        for statement in body:
            if state is None:
                return None
            state = self.statement(statement, state)
        return state

    def statement(self, node: ast.stmt, state: State) -> State | None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            state.pop(node.name, None)
            return state
        if isinstance(node, ast.If):
            return self.branch(node, state)
        if isinstance(node, (ast.For, ast.AsyncFor)):
            self.visit(node.iter, state)
            inner = dict(state)
            self.bind_each(node.target, node.iter, inner)
            after = meet(state, self.block(node.body, inner))
            return self.block(node.orelse, after)
        if isinstance(node, ast.While):
            self.visit(node.test, state)
            return meet(state, self.block(node.body, dict(state)))
        if isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                self.visit(item.context_expr, state)
                if item.optional_vars is not None:
                    self.forget(item.optional_vars, state)
            return self.block(node.body, state)
        if isinstance(node, ast.Try):
            before = dict(state)
            after = self.block([*node.body, *node.orelse], state)
            for handler in node.handlers:
                after = meet(after, self.block(handler.body, dict(before)))
            return self.block(node.finalbody, after)
        if isinstance(node, ast.Match):
            self.visit(node.subject, state)
            met: State | None = dict(state)
            for case in node.cases:
                met = meet(met, self.block(case.body, dict(state)))
            return met
        return self.simple(node, state)

    def simple(self, node: ast.stmt, state: State) -> State | None:
        if isinstance(node, ast.AugAssign):
            self.visit(node.value, state)
            value = self.value(node.target, state)
            if value is None and isinstance(node.target, ast.Subscript):
                value = self.value(node.target.value, state)  # `g[mask] *= 2` writes to g, though g[mask] is a copy
            if value is not None and not value.many:
                self.change(node, "an augmented assignment", value)
            elif isinstance(node.target, ast.Name):
                state.pop(node.target.id, None)
            return state
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            if node.value is not None:
                self.visit(node.value, state)
                for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                    self.assign(target, node.value, self.value(node.value, state), state)
            return state
        for child in ast.iter_child_nodes(node):
            self.visit(child, state)
        if isinstance(node, ast.Delete):
            for target in node.targets:
                self.forget(target, state)
        return None if isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue)) else state

    def branch(self, node: ast.If, state: State) -> State | None:
        self.visit(node.test, state)
        # An option to work in place is asked for by the caller.
        asked = any("inplace" in n.id.lower() for n in ast.walk(node.test) if isinstance(n, ast.Name))
        asked |= any("inplace" in n.attr.lower() for n in ast.walk(node.test) if isinstance(n, ast.Attribute))
        self.quiet += asked
        yes, no = self.block(node.body, dict(state)), self.block(node.orelse, dict(state))
        self.quiet -= asked
        met = meet(yes, no)
        absent = is_none_test(node.test)
        if absent is not None and met is not None:
            name, is_none = absent
            other = no if is_none else yes
            # `if g is None: g = zeros` leaves a g that is there what it was.
            if other is not None and name in other:
                met[name] = other[name]
        return met

    # names ------------------------------------------------------------------------------------------------------

    def assign(self, target: ast.expr, source: ast.expr, value: Value | None, state: State) -> None:
        if isinstance(target, ast.Name):
            if value is not None and value.shared:
                state[target.id] = value
            else:
                state.pop(target.id, None)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self.unpack(target, source, value, state)
        elif isinstance(target, ast.Subscript):
            self.visit(target.slice, state)
            base = self.value(target.value, state)
            if base is not None and not base.many:
                self.change(target, "an assignment to elements", base)
            elif base is not None and isinstance(target.value, ast.Name):
                state.pop(target.value.id, None)
        elif isinstance(target, ast.Attribute) and target.attr == "data":
            base = self.value(target.value, state)
            if base is not None and not base.many:
                self.change(target, "an assignment to `.data`", base)

    def unpack(self, target: ast.Tuple | ast.List, source: ast.expr, value: Value | None, state: State) -> None:
        parts = target.elts
        starred = any(isinstance(p, ast.Starred) for p in parts)
        if isinstance(source, (ast.Tuple, ast.List)) and len(source.elts) == len(parts) and not starred:
            values = [self.value(e, state) for e in source.elts]
            for part, element, found in zip(parts, source.elts, values, strict=True):
                self.assign(part, element, found, state)
        elif value is not None and value.many:
            for part in parts:
                if isinstance(part, ast.Starred):
                    self.assign(part.value, source, value, state)
                else:
                    self.assign(part, source, value.one(), state)
        else:
            self.forget(target, state)

    def bind_each(self, target: ast.expr, iterable: ast.expr, state: State) -> None:
        """What a loop binds: the items of a list, the rows of a tensor."""
        self.forget(target, state)
        if isinstance(iterable, ast.Call) and isinstance(target, (ast.Tuple, ast.List)):
            name = dotted(iterable.func)
            if name == "enumerate" and len(target.elts) == 2 and iterable.args:
                self.bind_each(target.elts[1], iterable.args[0], state)
            elif name == "zip" and len(target.elts) == len(iterable.args):
                for part, each in zip(target.elts, iterable.args, strict=True):
                    self.bind_each(part, each, state)
            return
        value = self.value(iterable, state)
        if value is not None and isinstance(target, ast.Name):
            state[target.id] = value.one() if value.many else value.without(RAW)

    def forget(self, target: ast.AST, state: State) -> None:
        for name in [*stored_names(target), *(n.id for n in ast.walk(target) if isinstance(n, ast.Name))]:
            state.pop(name, None)

    # expressions ------------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST, state: State) -> None:
        """Look through an expression for writes."""
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            state = dict(state)
            for generator in node.generators:
                self.visit(generator.iter, state)
                self.bind_each(generator.target, generator.iter, state)
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.comprehension):
                self.visit(child, state)
        if isinstance(node, ast.NamedExpr):
            self.assign(node.target, node.value, self.value(node.value, state), state)
        if isinstance(node, ast.Call):
            self.call(node, state)
        if isinstance(node, ast.expr):
            value = self.value(node, state)
            if value is not None and value.shared:
                self.seen.append((node, value))

    def call(self, node: ast.Call, state: State) -> None:
        name = dotted(node.func).rpartition(".")[2] or getattr(node.func, "attr", "")
        first = self.value(node.args[0], state) if node.args else None
        ours = dotted(node.func).partition(".")[0] in MODULES
        if isinstance(node.func, ast.Attribute):
            base = self.value(node.func.value, state)
            filled = name == "fill" and base is not None and HIDDEN in base.origins
            if base is not None and not base.many and (changes(name) or filled):
                self.change(node, f"`.{name}()`", base)
            elif first is not None and ours:
                named = changes(name) and (not first.many or "foreach" in name)
                if named or name == "copyto" or dotted(node.func).endswith(".at"):
                    self.change(node, f"`{dotted(node.func)}`", first)
        for keyword in node.keywords:
            if keyword.arg == "out" and ours:
                for part in keyword.value.elts if isinstance(keyword.value, ast.Tuple) else [keyword.value]:
                    value = self.value(part, state)
                    if value is not None:
                        self.change(node, "`out=`", value)
            elif keyword.arg == "inplace" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
                if first is not None and not first.many:
                    self.change(node, "`inplace=True`", first)

    def change(self, node: ast.AST, how: str, value: Value) -> None:
        if not self.quiet and value.shared:
            self.changes.append(Change(node, how, value))
