"""Rules that read source for what backward does with the gradient on the way."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradsmith.check._finding import Rule
from gradsmith.check._observation import Observations
from gradsmith.check.rules._reading import Spot, backwards, calls, gradient_names, returns, rule, walk_backward
from gradsmith.check.source._origin import RAW
from gradsmith.check.source._syntax import Owner, Unit, dotted, is_none_test, loads

__all__ = ["RULES"]

CUTTING_CALLS = {"detach", "item", "tolist", "numpy"}
CUTTING_FUNCTIONS = {"float", "np.asarray", "np.array", "numpy.asarray", "numpy.array"}


def _cut(owner: Owner, observations: Observations) -> Iterator[Spot]:
    seen = observations.of("second order")
    status = {o.data.get("status") for o in seen}
    if seen and not status & {"silent", "wrong"}:
        return
    for unit in backwards(owner):
        cuts = list(_cuts(owner, unit))
        if not seen and (not cuts or not _only_cut(unit, cuts) or _refuses(unit)):
            continue
        for node, how in cuts:
            yield Spot(unit, node, f"`{how}` in {unit.role} cuts the graph, so the second derivative is lost here.")


def _cuts(owner: Owner, unit: Unit) -> Iterator[tuple[ast.expr, str]]:
    """Where a tensor that came in is taken out of the graph, other than to decide something."""
    shared = {id(node) for node, value in walk_backward(owner, unit).seen if not value.many}
    deciding: set[int] = set()
    for node in unit.body():
        if isinstance(node, (ast.Compare, ast.Assert, ast.Raise, ast.Expr)):
            deciding |= {id(n) for n in ast.walk(node)}
        elif isinstance(node, (ast.If, ast.While, ast.IfExp)):
            deciding |= {id(n) for n in ast.walk(node.test)}
    for node in unit.body():
        if id(node) in deciding or not isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.Attribute) and node.attr == "data" and id(node.value) in shared:
            yield node, ".data"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CUTTING_CALLS:
            if id(node.func.value) in shared:
                yield node, f".{node.func.attr}()"
        elif isinstance(node, ast.Call) and dotted(node.func) in CUTTING_FUNCTIONS and len(node.args) == 1:
            if id(node.args[0]) in shared:
                yield node, f"{dotted(node.func)}()"


def _only_cut(unit: Unit, cuts: list[tuple[ast.expr, str]]) -> bool:
    """Whether each incoming gradient is used in no other way than cut off."""
    cut = {id(n) for node, _ in cuts for n in ast.walk(node)}
    names = gradient_names(unit)
    uses = [n for n in ast.walk(unit.node) if isinstance(n, ast.Name) and n.id in names]
    return bool(uses) and all(id(n) in cut for n in uses)


def _refuses(unit: Unit) -> bool:
    return any(name == "once_differentiable" for name, _ in unit.decorators()) or "autograd.Function" in unit.text


def _layout_demanded(owner: Owner, _: Observations) -> Iterator[Spot]:
    for unit in backwards(owner):
        raw = {
            id(node)
            for node, value in walk_backward(owner, unit).seen
            if RAW in value.origins and "gradient" in value.shared and not value.many
        }
        for node in unit.body():
            refuses = isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise)
            if not (isinstance(node, ast.Assert) or refuses):
                continue
            for inner in ast.walk(node.test):  # type: ignore[attr-defined]
                if isinstance(inner, ast.Attribute) and inner.attr == "is_contiguous" and id(inner.value) in raw:
                    yield Spot(unit, node, "Backward refuses an incoming gradient that is not contiguous.")


def _swallowed(owner: Owner, _: Observations) -> Iterator[Spot]:
    for unit in backwards(owner):
        for node in unit.body():
            if not isinstance(node, ast.Try):
                continue
            for handler in node.handlers:
                broad = handler.type is None or dotted(handler.type) in ("Exception", "BaseException")
                if broad and len(handler.body) == 1 and isinstance(handler.body[0], ast.Return):
                    if _nothing(handler.body[0].value):
                        yield Spot(unit, handler, "Any error in backward is turned into a gradient of zero or none.")


def _nothing(value: ast.expr | None) -> bool:
    if value is None or (isinstance(value, ast.Constant) and not value.value):
        return True
    if isinstance(value, ast.Tuple):
        return all(_nothing(e) for e in value.elts)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult):  # (None,) * 3
        return _nothing(value.left) and isinstance(value.left, ast.Tuple)
    return isinstance(value, ast.Call) and dotted(value.func) in ("torch.zeros_like", "torch.zeros")


def _wrong_need(owner: Owner, _: Observations) -> Iterator[Spot]:
    for unit in backwards(owner):
        results = [r.value for r in returns(unit)]
        tuples = [
            r for r in results if isinstance(r, ast.Tuple) and all(not isinstance(e, ast.Starred) for e in r.elts)
        ]
        if len(tuples) != 1 or len(results) != 1:
            continue
        places = [dotted(e) for e in tuples[0].elts]
        for node in unit.body():
            index = _need(unit, node.test) if isinstance(node, ast.If) and not node.orelse else None
            if index is None or not isinstance(node, ast.If) or index >= len(places):
                continue
            made = {dotted(t) for s in node.body if isinstance(s, ast.Assign) for t in s.targets}
            filled = {i for i, name in enumerate(places) if name and name in made}
            if len(filled) == 1 and index not in filled and not any(isinstance(s, ast.If) for s in node.body):
                place = filled.pop()
                message = (
                    f"`{places[place]}` is returned for input {place} and made only if input {index} needs a gradient."
                )
                yield Spot(unit, node, message)


def _need(unit: Unit, test: ast.expr) -> int | None:
    if isinstance(test, ast.Subscript) and dotted(test.value) == f"{unit.params[0]}.needs_input_grad":
        index = test.slice
        return index.value if isinstance(index, ast.Constant) and isinstance(index.value, int) else None
    return None


def _undefined(owner: Owner, _: Observations) -> Iterator[Spot]:
    switch = [c for u in owner.units for c in calls(u, "set_materialize_grads")]
    if not any(c.args and isinstance(c.args[0], ast.Constant) and c.args[0].value is False for c in switch):
        return
    if any(calls(u, "mark_non_differentiable") for u in owner.units):
        return
    for unit in backwards(owner):
        names = gradient_names(unit)
        used = [n for n in names if n in loads(unit.node)]
        if len(names) < 2 or unit.star:
            continue
        tested = _tested(unit)
        for node in unit.body():
            parts: list[ast.expr] = []
            if isinstance(node, ast.BinOp):
                parts = [node.left, node.right]
            elif isinstance(node, ast.Attribute):
                parts = [node.value]
            for part in parts:
                name = dotted(part)
                if name in used and not tested & set(names):
                    message = f"`{name}` is None where its output was not used, and is not asked for None."
                    yield Spot(unit, node, message)


def _tested(unit: Unit) -> set[str]:
    """Names whose being None is asked for somewhere, or that are set anew."""
    found: set[str] = set()
    for node in unit.body():
        if isinstance(node, ast.Compare):
            test = is_none_test(node)
            found |= {test[0]} if test else set()
        elif isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            found |= loads(node.test)
        elif isinstance(node, ast.BoolOp):
            found |= {dotted(v) for v in node.values}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.comprehension):
            found |= loads(node)
    return found


_LINEAR = """
import torch

class Scores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.mv(weight, x)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        {body}

subject = Scores.apply
inputs = (
    torch.tensor([0.5, -1.2, 2.0], requires_grad=True),
    torch.tensor([[0.2, 0.9, -0.4], [1.3, -0.8, 0.6], [0.1, 0.7, 1.0], [-1.1, 0.3, 0.5]], requires_grad=True),
)
"""
_PAIR = """
import torch

class SinCos(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return torch.sin(x), torch.cos(x)

    @staticmethod
    def backward(ctx, grad_sin, grad_cos):
        x, = ctx.saved_tensors
        {body}

subject = SinCos.apply
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
"""


def _fill(template: str, body: str) -> str:
    return template.format(body=body.strip().replace("\n", "\n        "))


_RIGHT = _fill(_LINEAR, "return grad_output @ weight, torch.outer(grad_output, x)")

RULES: list[Rule] = [
    rule(
        "GS906",
        "graph-cut-in-backward",
        _cut,
        summary="backward takes a tensor out of the graph, and its own derivative is wrong or zero for it",
        why=(
            "A gradient of a gradient (penalties, Hessian-vector products, meta-learning) differentiates what backward "
            "does. `.data`, `.detach()`, `.item()`, `float()` and numpy hide the tensor, and the result is silently "
            "zero or incomplete."
        ),
        mend="Stay in torch operations, or put what cannot be into a Function of its own with a backward.",
        bad=_fill(_LINEAR, "grad = grad_output.detach()\nreturn grad @ weight, torch.outer(grad, x)"),
        good=_RIGHT,
    ),
    rule(
        "GS916",
        "contiguous-gradient-demanded",
        _layout_demanded,
        summary="backward raises for a gradient that is not contiguous",
        why="`y.sum()` hands over an expanded gradient, a transpose a strided one: ordinary models fail in backward.",
        mend="Call `grad = grad.contiguous()` instead of asking for it.",
        bad=_fill(
            _LINEAR, "assert grad_output.is_contiguous()\nreturn grad_output @ weight, torch.outer(grad_output, x)"
        ),
        good=_fill(_LINEAR, "grad = grad_output.contiguous()\nreturn grad @ weight, torch.outer(grad, x)"),
    ),
    rule(
        "GS917",
        "failure-swallowed",
        _swallowed,
        summary="backward turns any error into a gradient of zero or none",
        why="Out of memory, a wrong shape or a mistake in the code then looks like a parameter that does not learn.",
        mend="Let the error out, or catch the one kind you expect.",
        bad=_fill(
            _LINEAR,
            "try:\n    return grad_output @ weight, torch.outer(grad_output, x)\n"
            "except Exception:\n    return None, None",
        ),
        good=_RIGHT,
    ),
    rule(
        "GS920",
        "need-of-another-input",
        _wrong_need,
        summary="a gradient is made only if another input needs one",
        why="When exactly one of the two inputs is frozen, the other gets no gradient or work is done for nothing.",
        mend="`ctx.needs_input_grad` counts the arguments of `apply` from 0, as the returned gradients do.",
        bad=_fill(
            _LINEAR,
            "grad_x = grad_weight = None\nif ctx.needs_input_grad[0]:\n    grad_weight = torch.outer(grad_output, x)\n"
            "if ctx.needs_input_grad[1]:\n    grad_x = grad_output @ weight\nreturn grad_x, grad_weight",
        ),
        good=_fill(
            _LINEAR,
            "grad_x = grad_weight = None\nif ctx.needs_input_grad[0]:\n    grad_x = grad_output @ weight\n"
            "if ctx.needs_input_grad[1]:\n    grad_weight = torch.outer(grad_output, x)\nreturn grad_x, grad_weight",
        ),
    ),
    rule(
        "GS921",
        "undefined-gradient-used",
        _undefined,
        summary="set_materialize_grads(False), and backward uses a gradient that may be None",
        why="The gradient of an output that the loss does not use is then None, and backward fails with a TypeError.",
        mend="Treat None as zero, or leave `set_materialize_grads` alone.",
        bad=_fill(_PAIR, "return grad_sin * x.cos() - grad_cos * x.sin()"),
        good=_fill(
            _PAIR,
            "grad = torch.zeros_like(x)\nif grad_sin is not None:\n    grad = grad + grad_sin * x.cos()\n"
            "if grad_cos is not None:\n    grad = grad - grad_cos * x.sin()\nreturn grad",
        ),
    ),
]
