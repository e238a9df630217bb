"""What the rules that read source have in common."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gradsmith.check._finding import Finding, Rule
from gradsmith.check._observation import Observations
from gradsmith.check.source._alias import Walk
from gradsmith.check.source._origin import RAW, Value
from gradsmith.check.source._syntax import Owner, Unit, dotted, loads, owners

__all__ = [
    "Spot",
    "assigned",
    "backwards",
    "calls",
    "differentiable",
    "gradient_names",
    "kept_on_ctx",
    "returns",
    "rule",
    "walk_backward",
]


@dataclass(frozen=True)
class Spot:
    """A place in the source and what is wrong there."""

    unit: Unit
    node: ast.AST
    message: str
    diagnosis: str = ""


Look = Callable[[Owner, Observations], Iterator[Spot]]


def rule(code: str, name: str, look: Look, *, summary: str, why: str, mend: str, bad: str, good: str) -> Rule:
    """A rule from a function that looks through one class, operator or function; one finding for each line."""

    def find(observations: Observations) -> Iterator[Finding]:
        met: set[str] = set()
        for owner in owners(observations):
            for spot in look(owner, observations):
                where = spot.unit.where(spot.node)
                if where not in met:
                    met.add(where)
                    line = f"{where}: {spot.unit.quote(spot.node)}"
                    yield Finding(
                        code, spot.message, mend, spot.diagnosis, evidence=(line,), condition="source", where=where
                    )

    return Rule(code, name, summary, why, mend, bad, good, find)


def backwards(owner: Owner) -> list[Unit]:
    """The functions autograd calls with the incoming gradients, those with a parameter for `ctx`."""
    return [u for u in owner.units if owner.gradient and u.role in ("backward", "vjp") and u.params]


def gradient_names(unit: Unit) -> list[str]:
    return unit.params[1:]


def walk_backward(owner: Owner, unit: Unit) -> Walk:
    """A backward followed from its incoming gradients and saved tensors."""
    start = {name: Value(frozenset({"gradient", RAW})) for name in gradient_names(unit)}
    if unit.star:
        start[unit.star] = Value(frozenset({"gradient", RAW}), many=True)
    ctx = unit.params[0]
    attributes = {f"{ctx}.saved_tensors": Value(frozenset({"saved"}), many=True)}
    for kept in kept_on_ctx(owner):
        if kept.kind is not None and kept.plain:
            attributes[f"{ctx}.{kept.name}"] = Value(frozenset({"saved"}))
    return Walk(start, attributes).run(unit.node.body)


def returns(unit: Unit) -> list[ast.Return]:
    return [n for n in unit.body() if isinstance(n, ast.Return)]


def calls(unit: Unit, name: str) -> list[ast.Call]:
    """The calls of a method, whatever it is a method of."""
    return [n for n in unit.body() if isinstance(n, ast.Call) and getattr(n.func, "attr", "") == name]


def assigned(unit: Unit, name: str) -> list[ast.expr]:
    """The right-hand sides of the plain assignments to a name."""
    found = []
    for node in unit.body():
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        if any(isinstance(t, ast.Name) and t.id == name for t in targets):
            found.append(node.value)  # type: ignore[attr-defined]
    return found


def differentiable(owner: Owner, index: int) -> bool:
    """Whether backward surely returns a gradient for the input at a place, so that it is a tensor."""
    found = backwards(owner)
    results = [r.value for r in returns(found[0])] if found else []
    return bool(results) and all(_has_gradient(owner, found[0], r, index) for r in results)


def _has_gradient(owner: Owner, unit: Unit, result: ast.expr | None, index: int) -> bool:
    if isinstance(result, ast.Tuple):
        if any(isinstance(e, ast.Starred) for e in result.elts) or index >= len(result.elts):
            return False
        result = result.elts[index]
    elif index or len(owner.inputs) != 1 or getattr(owner.unit("forward"), "star", None):
        return False  # It may be a tuple.
    if result is None or (isinstance(result, ast.Constant) and result.value is None):
        return False
    if isinstance(result, ast.Name) and result.id not in unit.params:
        values = assigned(unit, result.id)
        return not values or any(not (isinstance(v, ast.Constant) and v.value is None) for v in values)
    return True


@dataclass(frozen=True)
class Kept:
    """An attribute set on ctx: where, and whether it surely is an "input" or "output" tensor, alone (`plain`)."""

    name: str
    unit: Unit
    node: ast.AST
    kind: str | None
    plain: bool


def kept_on_ctx(owner: Owner) -> list[Kept]:
    """What the forward pass keeps on ctx other than by `save_for_backward`."""
    kept = []
    for unit in owner.makers:
        tensors = _tensors(owner, unit)
        chosen = _chosen(unit)
        for node in unit.body():
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if isinstance(target, ast.Attribute) and dotted(target.value) == unit.params[0]:
                    parts = _parts(node.value)
                    kinds = [
                        tensors[t] for t in map(ast.unparse, parts) if t in tensors and (id(node), t) not in chosen
                    ]
                    kept.append(Kept(target.attr, unit, node, kinds[0] if kinds else None, parts == [node.value]))
    return kept


def _chosen(unit: Unit) -> set[tuple[int, str]]:
    """Statements under a condition on a name, with the name: `if isinstance(x, int): ctx.x = x`."""
    found: set[tuple[int, str]] = set()
    for node in unit.body():
        if isinstance(node, ast.If):
            names = loads(node.test)
            found |= {(id(n), name) for s in (*node.body, *node.orelse) for n in ast.walk(s) for name in names}
    return found


def _parts(value: ast.expr) -> list[ast.expr]:
    if isinstance(value, (ast.Tuple, ast.List)):
        return value.elts
    return value.values if isinstance(value, ast.Dict) else [value]


def _tensors(owner: Owner, unit: Unit) -> dict[str, str]:
    """The expressions in a unit that surely are input or output tensors."""
    texts: dict[str, int] = {}
    found: dict[str, str] = {}
    forward = owner.unit("forward")
    if unit.role == "forward":
        texts = {name: i for i, name in enumerate(owner.inputs)}
        for result in returns(unit):
            first = result.value.elts[0] if isinstance(result.value, ast.Tuple) and result.value.elts else result.value
            if isinstance(first, ast.Name) and first.id not in texts:
                found[first.id] = "output"
    elif len(unit.params) >= 3 and forward is not None:
        inputs, output = unit.params[1], unit.params[2]
        texts = {f"{inputs}[{i}]": i for i in range(len(owner.inputs))}
        for node in unit.body():
            if isinstance(node, ast.Assign) and dotted(node.value) == inputs:
                for target in node.targets:
                    if isinstance(target, ast.Tuple):
                        names = [dotted(e) for e in target.elts]
                        texts.update({n: i for i, n in enumerate(names[: names.index("")] if "" in names else names)})
        if not any(isinstance(r.value, (ast.Tuple, ast.List, ast.Dict)) for r in returns(forward)):
            found[output] = "output"
    saved = {ast.unparse(a) for call in calls(unit, "save_for_backward") for a in call.args}
    rebound = {n.id for n in unit.body() if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for text, index in texts.items():
        if unit.role == "forward" and text in rebound:
            continue
        if differentiable(owner, index) or text in saved:
            found[text] = "input"
    return found
