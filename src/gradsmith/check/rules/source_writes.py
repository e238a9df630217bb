"""Rules that read source for writes to memory that is not the function's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gradsmith.check._finding import Rule
from gradsmith.check._observation import Observations
from gradsmith.check.rules._reading import Spot, backwards, calls, differentiable, rule, walk_backward
from gradsmith.check.source._alias import Change, Walk
from gradsmith.check.source._origin import HIDDEN, RAW, Value
from gradsmith.check.source._syntax import Owner, root_name

__all__ = ["RULES"]


def _unseen(change: Change) -> str:
    if HIDDEN in change.value.origins:
        return "It is reached through `.data`, `.detach()` or numpy, so autograd cannot notice."
    return ""


def _gradient_changed(owner: Owner, _: Observations) -> Iterator[Spot]:
    if any(
        isinstance(n, ast.Name | ast.Attribute) and "boxed" in ast.unparse(n) for u in owner.units for n in u.body()
    ):
        return  # The list of gradients was asked for, to be emptied.
    for unit in backwards(owner):
        for change in walk_backward(owner, unit).changes:
            if "gradient" in change.value.shared:
                yield Spot(unit, change.node, f"The incoming gradient is changed by {change.how}.", _unseen(change))


def _saved_changed(owner: Owner, _: Observations) -> Iterator[Spot]:
    for unit in backwards(owner):
        for change in walk_backward(owner, unit).changes:
            if "saved" in change.value.shared and "gradient" not in change.value.shared:
                message = f"A tensor kept from the forward pass is changed by {change.how}."
                yield Spot(unit, change.node, message, _unseen(change))


def _input_changed(owner: Owner, _: Observations) -> Iterator[Spot]:
    forward = owner.unit("forward")
    if forward is None or not owner.gradient:
        return
    if owner.kind == "custom_op":
        names = {n for n in owner.facts.get("tensors", []) if n not in owner.facts.get("mutates", [])}
        told = "is not named in `mutates_args`"
    else:
        dirty = [a for u in owner.units for c in calls(u, "mark_dirty") for a in c.args]
        if any(isinstance(a, ast.Starred) or root_name(a) not in owner.inputs for a in dirty):
            return
        marked = {root_name(a) for a in dirty}
        names = {n for i, n in enumerate(owner.inputs) if n not in marked and differentiable(owner, i)}
        told = "is not given to `ctx.mark_dirty`"
    start = {name: Value(frozenset({f"input:{name}", RAW})) for name in sorted(names)}
    for change in Walk(start).run(forward.node.body).changes:
        name = sorted(change.value.shared)[0].partition(":")[2]
        message = f"The input `{name}` is changed by {change.how} and {told}."
        yield Spot(forward, change.node, message, _unseen(change))


RULES: list[Rule] = [
    rule(
        "GS901",
        "gradient-changed-in-place",
        _gradient_changed,
        summary="backward writes to the memory of the gradient it was handed",
        why=(
            "The incoming gradient belongs to autograd: the same tensor may be on its way to another branch of the "
            "graph, be kept by a hook or by retain_grad, or be expanded from one number. Writing to it makes other "
            "gradients wrong, often far from here and only in some models. The PyTorch notes forbid it. `contiguous`, "
            "`reshape`, `view` and `to` often return the very same memory, so writing to their result is no better."
        ),
        mend="Compute a new tensor (`g * s`, `g.masked_fill(...)`), or `clone()` the gradient before you write to it.",
        bad="""
import torch

class LeakyClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        grad = grad_output.contiguous()
        grad[x <= 0] *= ctx.slope
        return grad, None

subject = lambda x: LeakyClip.apply(x, 0.1)
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
""",
        good="""
import torch

class LeakyClip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        x, = ctx.saved_tensors
        return torch.where(x > 0, grad_output, ctx.slope * grad_output), None

subject = lambda x: LeakyClip.apply(x, 0.1)
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
""",
    ),
    rule(
        "GS902",
        "saved-tensor-changed-in-place",
        _saved_changed,
        summary="backward writes to a tensor that was saved in the forward pass",
        why=(
            "A saved input or output is the tensor the rest of the model holds; a saved intermediate is needed again "
            "when backward runs a second time (retain_graph, a second loss). After the write the second run fails or, "
            "through `.data`, is silently wrong."
        ),
        mend="Compute a new tensor, or `clone()` the saved one before you write to it.",
        bad="""
import torch

class Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, = ctx.saved_tensors
        return y.data.mul_(1 - y) * grad_output

subject = Sigmoid.apply
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
""",
        good="""
import torch

class Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        y, = ctx.saved_tensors
        return y * (1 - y) * grad_output

subject = Sigmoid.apply
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
""",
    ),
    rule(
        "GS903",
        "input-changed-in-place",
        _input_changed,
        summary="forward writes to an input without saying so",
        why=(
            "Autograd counts writes to a tensor to know whether what it saved is still valid, and routes gradients by "
            "which output is the changed input. Without `ctx.mark_dirty` (or `mutates_args` of a custom operator) the "
            "caller's tensor changes under its hands and gradients of what used it before are wrong or missing."
        ),
        mend="Make a new tensor; or call `ctx.mark_dirty(x)` and return `x` (an operator: name it in `mutates_args`).",
        bad="""
import torch

class Centre(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x -= x.mean(-1, keepdim=True)
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output - grad_output.mean(-1, keepdim=True)

subject = lambda x: Centre.apply(1.0 * x)
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
""",
        good="""
import torch

class Centre(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x - x.mean(-1, keepdim=True)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output - grad_output.mean(-1, keepdim=True)

subject = lambda x: Centre.apply(1.0 * x)
inputs = (torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),)
""",
    ),
]
