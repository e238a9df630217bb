"""Rules that read source for state that outlives a call."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradsmith.check._finding import Rule
from gradsmith.check._observation import Observations
from gradsmith.check.rules._reading import Spot, backwards, rule
from gradsmith.check.source._syntax import Owner, Unit, dotted, loads, root_name

__all__ = ["RULES"]

SEEDS = {
    "torch.manual_seed", "torch.random.manual_seed", "torch.seed", "torch.cuda.manual_seed",
    "torch.cuda.manual_seed_all", "np.random.seed", "numpy.random.seed", "random.seed",
}  # fmt: skip
SWITCHES = {
    "torch.set_default_dtype", "torch.set_default_device", "torch.set_default_tensor_type", "torch.set_num_threads",
    "torch.use_deterministic_algorithms", "torch.set_deterministic", "torch.set_flush_denormal",
    "torch.set_float32_matmul_precision", "torch.autograd.set_detect_anomaly",
}  # fmt: skip
RESTORING = ("fork_rng", "set_rng_state", "setstate", "set_state", "preserve_rng")
GROWING = {"append", "appendleft", "insert", "push", "extend"}
TAKING = {"pop", "popleft", "popitem"}


def _between_passes(owner: Owner, _: Observations) -> Iterator[Spot]:
    if not owner.gradient:
        return
    forwards = [u for u in owner.units if u.role in ("forward", "setup_context")]
    for unit in forwards:
        for key, node in _writes(owner, unit):
            for other in backwards(owner):
                if _is_read(other, key, {node}):
                    yield Spot(unit, node, f"`{unit.role}` leaves `{key}` for `{other.role}` outside ctx.")
    for unit in backwards(owner):
        for key, node in _writes(owner, unit):
            if key.endswith("()"):
                continue
            if any(_is_read(u, key, {node}, to_use=True) for u in [unit, *forwards]):
                yield Spot(unit, node, f"`{unit.role}` keeps `{key}` from one call to the next.")


def _writes(owner: Owner, unit: Unit) -> Iterator[tuple[str, ast.AST]]:
    """What a function sets outside itself to something that depends on its arguments, and where.

    A key is the text of the place, with "()" after it for a container that was added to.
    """
    nodes = list(unit.body())
    declared = {n for d in nodes if isinstance(d, (ast.Global, ast.Nonlocal)) for n in d.names}
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    args = unit.node.args
    parameters = {a.arg for a in ast.walk(args) if isinstance(a, ast.arg)}
    local = (stored | parameters) - declared
    ctx = set(unit.params[:1]) if unit.role != "forward" or owner.unit("setup_context") is None else set()
    depends = _depends(nodes, parameters - ctx)
    remembered = _remembered(unit.node)
    for node in nodes:
        if id(node) in remembered:
            continue
        if isinstance(node, ast.Assign) and loads(node.value) & depends:
            for target in node.targets:
                key = _place(target, local, declared)
                if key:
                    yield key, node
        elif (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
        ):
            call, place = node.value, node.value.func.value
            text = dotted(place)
            if call.func.attr in GROWING and text and root_name(place) not in local:  # type: ignore[attr-defined]
                if any(loads(a) & depends for a in call.args):
                    yield f"{text}()", node


def _place(target: ast.expr, local: set[str], declared: set[str]) -> str:
    if isinstance(target, ast.Name):
        return target.id if target.id in declared else ""
    if root_name(target) in local:
        return ""
    if isinstance(target, ast.Attribute):
        return dotted(target)
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) and dotted(target.value):
        return ast.unparse(target)
    return ""


def _depends(nodes: list[ast.AST], start: set[str]) -> set[str]:
    depends = set(start)
    for node in [*nodes, *nodes]:
        if isinstance(node, ast.Assign) and loads(node.value) & depends:
            depends |= {n.id for t in node.targets for n in ast.walk(t) if isinstance(n, ast.Name)} - {"ctx"}
    return depends


def _remembered(function: ast.AST) -> set[int]:
    """Statements under a condition or in a `try`: a table made once is not state."""
    return {
        id(inner)
        for node in ast.walk(function)
        if isinstance(node, (ast.If, ast.Try))
        for inner in ast.walk(node)
        if isinstance(inner, ast.stmt)
    }


def _is_read(unit: Unit, key: str, but: set[ast.AST], to_use: bool = False) -> bool:
    """Whether a function reads a place, otherwise than in the statement that writes it."""
    nodes = list(unit.body())
    name = key.removesuffix("()")
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    declared = {n for d in nodes if isinstance(d, (ast.Global, ast.Nonlocal)) for n in d.names}
    if name.partition(".")[0].partition("[")[0] in (stored | set(unit.params)) - declared:
        return False
    own = {id(inner) for node in but for inner in ast.walk(node)}
    if to_use:
        values = [n.value for n in nodes if isinstance(n, (ast.Return, ast.Assign)) and n.value is not None]
        nodes = [inner for value in values for inner in ast.walk(value)]
    for node in nodes:
        if id(node) in own or not isinstance(node, ast.expr):
            continue
        if key.endswith("()"):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in TAKING and dotted(node.func.value) == name:
                    return True
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and dotted(node.value) == name:
                return True
        elif isinstance(getattr(node, "ctx", None), ast.Load) and ast.unparse(node) == name:
            return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("pop", "get"):
            if node.args and name == f"{dotted(node.func.value)}[{ast.unparse(node.args[0])}]":
                return True
    return False


def _switched(owner: Owner, _: Observations) -> Iterator[Spot]:
    for unit in owner.units:
        if not owner.gradient or unit.role == "function" or any(word in unit.text for word in RESTORING):
            continue
        found: dict[str, list[ast.AST]] = {}
        for node in unit.body():
            if isinstance(node, ast.Call) and dotted(node.func) in SEEDS | SWITCHES:
                found.setdefault(dotted(node.func), []).append(node)
        for name, nodes in found.items():
            if name in SEEDS:
                yield Spot(unit, nodes[0], f"`{name}` in {unit.role} reseeds the random numbers of the whole program.")
            elif len(nodes) == 1:
                yield Spot(unit, nodes[0], f"`{name}` in {unit.role} changes the whole program and is not put back.")


_SOFT = """
import torch
{more}
class SoftThreshold(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        {keep}
        return x.sign() * (x.abs() - width).clamp_min(0)

    @staticmethod
    def backward(ctx, grad_output):
        {take}
        return torch.where(inner, grad_output, 0), None

subject = lambda x: SoftThreshold.apply(x, 0.6)
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
"""

_DROP = """
import torch

class NoisyScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, seed):
        {draw}
        ctx.save_for_backward(noise)
        return x * noise

    @staticmethod
    def backward(ctx, grad_output):
        noise, = ctx.saved_tensors
        return grad_output * noise, None

subject = lambda x: NoisyScale.apply(x, 3)
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
"""

RULES: list[Rule] = [
    rule(
        "GS908",
        "state-between-passes",
        _between_passes,
        summary="forward and backward talk through a class, a global or an enclosing function",
        why=(
            "There is one class and one global for all calls. When a function is called twice before the first "
            "backward runs (two layers, gradient checkpointing, several threads), backward gets what the other call "
            "left. A table of constants that is made once is no such state."
        ),
        mend="Keep tensors with `ctx.save_for_backward`, and numbers and shapes as attributes of ctx.",
        bad=_SOFT.format(more="", keep="SoftThreshold.inner = x.abs() > width", take="inner = SoftThreshold.inner"),
        good=_SOFT.format(more="", keep="ctx.save_for_backward(x.abs() > width)", take="inner, = ctx.saved_tensors"),
    ),
    rule(
        "GS911",
        "global-switch",
        _switched,
        summary="forward or backward seeds the random numbers or changes a default of the whole program",
        why=(
            "Every random number drawn afterwards, dropout and data shuffling included, repeats itself at each call; "
            "a changed default type or thread count shows up in code that knows nothing of this function."
        ),
        mend="Draw from your own `torch.Generator`, or inside `torch.random.fork_rng()`; put defaults back afterwards.",
        bad=_DROP.format(draw="torch.manual_seed(seed)\n        noise = 1 + 0.1 * torch.randn(x.shape, dtype=x.dtype)"),
        good=_DROP.format(
            draw="source = torch.Generator().manual_seed(seed)\n"
            "        noise = 1 + 0.1 * torch.randn(x.shape, dtype=x.dtype, generator=source)"
        ),
    ),
]
