"""Rules that read source for the form a custom gradient must have."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradsmith.check._finding import Rule
from gradsmith.check._observation import Observations
from gradsmith.check.rules._reading import Spot, backwards, calls, gradient_names, returns, rule
from gradsmith.check.source._syntax import Owner, Unit, dotted, loads

__all__ = ["RULES"]

# A class of these calls the method itself.
DRIVERS = {"LightningModule", "LightningModuleBase", "DeepSpeedEngine"}
HARMLESS = {"staticmethod", "classmethod", "once_differentiable", "no_grad"}


def _never_called(owner: Owner, observations: Observations) -> Iterator[Spot]:
    unit = owner.unit("backward")
    if unit is None or owner.kind not in ("Module", "class"):
        return
    static = any(name == "staticmethod" for name, _ in unit.decorators())
    if len(unit.params) + bool(unit.star) < (1 if static else 2):
        return
    if owner.facts.get("abstract") or set(owner.facts.get("bases", [])) & DRIVERS:
        return
    for observation in observations.of("source"):
        for raw in observation.data.get("units", []):
            # A method called backward that is used, from anywhere that was read, may be this one.
            if ".backward" in raw["text"] or "autograd.grad(" in raw["text"]:
                return
    message = f"`{owner.name}.backward` is never called: autograd knows only the operations that forward runs."
    yield Spot(unit, unit.node, message)


def _keyword_only(owner: Owner, _: Observations) -> Iterator[Spot]:
    unit = owner.unit("forward")
    if unit is not None and owner.kind == "Function" and unit.node.args.kwonlyargs:
        first = unit.node.args.kwonlyargs[0]
        names = ", ".join(f"`{a.arg}`" for a in unit.node.args.kwonlyargs)
        yield Spot(unit, first, f"`forward` takes {names} by keyword only, and `apply` cannot pass that on.")


def _both(owner: Owner, _: Observations) -> Iterator[Spot]:
    first, second = owner.unit("backward"), owner.unit("vjp")
    if owner.kind == "Function" and first is not None and second is not None:
        yield Spot(
            second, second.node, f"`{owner.name}` defines both `backward` and `vjp`, which are one and the same."
        )


def _two_vmaps(owner: Owner, _: Observations) -> Iterator[Spot]:
    unit = owner.unit("vmap")
    if owner.kind == "Function" and unit is not None and owner.facts.get("generate_vmap_rule"):
        yield Spot(unit, unit.node, f"`{owner.name}` has a `vmap` of its own and sets `generate_vmap_rule = True`.")


def _autocast(owner: Owner, _: Observations) -> Iterator[Spot]:
    forward, backward = owner.unit("forward"), owner.unit("backward")
    if owner.kind != "Function" or forward is None or backward is None:
        return
    fwd, bwd = _decorator(forward, "custom_fwd"), _decorator(backward, "custom_bwd")
    if bwd is not None and owner.unit("setup_context") is not None:
        yield Spot(backward, bwd, "`custom_bwd` does not work with `setup_context`: backward raises AttributeError.")
    elif bwd is not None and fwd is None and _bare(forward):
        yield Spot(backward, bwd, "`backward` has `custom_bwd` but `forward` lacks `custom_fwd`: backward raises.")
    elif fwd is not None and bwd is None and _bare(backward) and not _keywords(fwd).get("cast_inputs"):
        yield Spot(forward, fwd, "`forward` has `custom_fwd` but `backward` lacks `custom_bwd`.")
    elif fwd is not None and bwd is not None:
        one, two = _keywords(fwd).get("device_type"), _keywords(bwd).get("device_type")
        if isinstance(one, ast.Constant) and isinstance(two, ast.Constant) and one.value != two.value:
            yield Spot(backward, bwd, f"`custom_fwd` is for {one.value!r} and `custom_bwd` for {two.value!r}.")


def _decorator(unit: Unit, name: str) -> ast.expr | None:
    return next((tree for last, tree in unit.decorators() if last == name), None)


def _bare(unit: Unit) -> bool:
    """Whether nothing stands around a function that might do what `custom_fwd` or `custom_bwd` does."""
    names = {last for last, _ in unit.decorators()}
    return names <= HARMLESS and (not unit.wrapped or bool(names & {"once_differentiable", "no_grad"}))


def _keywords(tree: ast.expr) -> dict[str | None, ast.expr]:
    return {k.arg: k.value for k in tree.keywords} if isinstance(tree, ast.Call) else {}


def _dirty(owner: Owner, _: Observations) -> Iterator[Spot]:
    forward = owner.unit("forward")
    if owner.kind != "Function" or forward is None or owner.unit("setup_context") is not None:
        return
    results = [r.value for r in returns(forward) if r.value is not None]
    reached = {name for value in results for name in loads(value)}
    for _round in range(3):
        for node in forward.body():
            if isinstance(node, ast.Assign) and any(_named(t) & reached for t in node.targets):
                reached |= loads(node.value)
    for call in calls(forward, "mark_dirty"):
        for argument in call.args:
            name = dotted(argument)
            if name in owner.inputs and results and name not in reached:
                yield Spot(forward, call, f"`{name}` is marked dirty and is not returned: torch raises at the call.")


def _named(target: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}


def _returns_nothing(owner: Owner, _: Observations) -> Iterator[Spot]:
    for unit in backwards(owner):
        nodes = list(unit.body())
        if any(isinstance(n, (ast.Raise, ast.Yield)) or (isinstance(n, ast.Return) and n.value) for n in nodes):
            continue
        names = {*gradient_names(unit), *([unit.star] if unit.star else [])}
        if any(isinstance(n, ast.Assign) and loads(n.value) & names for n in nodes):
            yield Spot(unit, unit.node, f"`{unit.role}` computes from the incoming gradient and returns nothing.")


_GELU = """
import torch
{more}
class Swish(torch.autograd.Function):
    @staticmethod{fwd}
    def forward({forward}):
        {body}

    @staticmethod{bwd}
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        s = torch.sigmoid(ctx.beta * x)
        grad = grad_output * (s + ctx.beta * x * s * (1 - s))
        {end}
{rest}
subject = lambda x: Swish.apply(x, 1.5)
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
"""


def _swish(
    more: str = "",
    fwd: str = "",
    bwd: str = "",
    forward: str = "ctx, x, beta",
    body: str = "ctx.save_for_backward(x)\n        ctx.beta = beta\n        return x * torch.sigmoid(beta * x)",
    end: str = "return grad, None",
    rest: str = "",
) -> str:
    fwd, bwd = (f"\n    {d}" if d else "" for d in (fwd, bwd))
    return _GELU.format(more=more, fwd=fwd, bwd=bwd, forward=forward, body=body, end=end, rest=rest)


_SETUP = """
    @staticmethod
    def setup_context(ctx, inputs, output):
        x, beta = inputs
        ctx.save_for_backward(x)
        ctx.beta = beta
"""
_VMAP = """
    @staticmethod
    def vmap(info, in_dims, x, beta):
        return Swish.apply(x, beta), in_dims[0]
"""
_VJP = """
    @staticmethod
    def vjp(ctx, grad_output):
        return Swish.backward(ctx, grad_output)
"""
_NEW = {"forward": "x, beta", "body": "return x * torch.sigmoid(beta * x)"}
_AMP = "from torch.amp import custom_bwd, custom_fwd\n"

_ROUND = """
import torch
{more}
class Bounded(torch.nn.Module):
    def forward(self, x):
        {body}
{rest}
subject = Bounded()
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
"""

_INPLACE = """
import torch

class Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by):
        ctx.mark_dirty(x)
        x.add_(by)
        return {result}

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None

subject = lambda x: Shift.apply(1.0 * x, 0.5)
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
"""

RULES: list[Rule] = [
    rule(
        "GS905",
        "backward-never-called",
        _never_called,
        summary="an nn.Module has a method `backward` that nothing calls",
        why=(
            "Autograd differentiates what `forward` ran; a method of that name on a Module means nothing to it. The "
            "gradient written there is never used, and the model trains with another one."
        ),
        mend="Move forward and backward into a `torch.autograd.Function` and call its `apply` in the Module's forward.",
        bad=_ROUND.format(
            more="",
            body="return torch.tanh(x)",
            rest="\n    def backward(self, grad_output):\n        return grad_output.clamp(-1, 1)\n",
        ),
        good=_ROUND.format(more="", body="return torch.tanh(x)", rest=""),
    ),
    rule(
        "GS907",
        "keyword-only-parameter",
        _keyword_only,
        summary="forward of a Function has a keyword-only parameter",
        why=(
            "`apply` hands on positional arguments; passing the keyword raises TypeError, so the parameter can never "
            "be anything but its default."
        ),
        mend="Make the parameter positional (drop the `*`), and wrap `apply` in a function that takes keywords.",
        bad=_swish(forward="ctx, x, beta, *, shift=0.0"),
        good=_swish(),
    ),
    rule(
        "GS912",
        "backward-and-vjp",
        _both,
        summary="a Function defines both backward and vjp",
        why="They are two names of one method; torch refuses a class with both as soon as a gradient is wanted.",
        mend="Keep one of them, `backward` by custom.",
        bad=_swish(rest=_VJP),
        good=_swish(),
    ),
    rule(
        "GS913",
        "two-vmap-rules",
        _two_vmaps,
        summary="a Function has its own vmap and asks for a generated one",
        why="torch refuses to vmap such a class.",
        mend="Delete the `vmap` method, or set `generate_vmap_rule = False`.",
        bad=_swish(**_NEW, rest=_SETUP + _VMAP + "\n    generate_vmap_rule = True\n"),
        good=_swish(**_NEW, rest=_SETUP + "\n    generate_vmap_rule = True\n"),
    ),
    rule(
        "GS914",
        "half-of-autocast",
        _autocast,
        summary="custom_fwd and custom_bwd do not go together",
        why=(
            "`custom_bwd` reads what `custom_fwd` wrote on ctx: alone, for another device type, or with "
            "`setup_context` (where forward has no ctx) it raises or runs in the wrong precision. `custom_fwd` alone "
            "leaves backward with tensors of mixed types under autocast."
        ),
        mend="Decorate both, for the same device type, in the style where forward takes ctx; or neither.",
        bad=_swish(more=_AMP, bwd='@custom_bwd(device_type="cpu")'),
        good=_swish(more=_AMP, fwd='@custom_fwd(device_type="cpu")', bwd='@custom_bwd(device_type="cpu")'),
    ),
    rule(
        "GS915",
        "dirty-not-returned",
        _dirty,
        summary="an input is marked dirty and not returned",
        why="torch raises: an input that is changed in place must be an output, or its new value has no history.",
        mend="Return the changed input itself, or do not change it and do not mark it.",
        bad=_INPLACE.format(result="torch.relu(torch.ones(2, 3))"),
        good=_INPLACE.format(result="x"),
    ),
    rule(
        "GS918",
        "backward-returns-nothing",
        _returns_nothing,
        summary="backward computes gradients and has no return",
        why="A missing return is `None`, which tells autograd that no input has a gradient: training stands still.",
        mend="Return one gradient for each input of forward.",
        bad=_swish(end="grad = grad, None"),
        good=_swish(),
    ),
]
