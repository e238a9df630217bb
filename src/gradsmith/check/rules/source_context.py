"""Rules that read source for what is kept on ctx and how it is taken back."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator

from gradsmith.check._finding import Rule
from gradsmith.check._observation import Observations
from gradsmith.check.rules._reading import Spot, backwards, calls, kept_on_ctx, returns, rule
from gradsmith.check.source._syntax import Owner, Unit, dotted, loads, longest_path

__all__ = ["RULES", "unused_saved"]


def _on_ctx(owner: Owner, observations: Observations) -> Iterator[Spot]:
    if not owner.gradient:
        return
    seen = observations.of("ctx")
    kinds = {a["name"]: a.get("kind", "tensor") for o in seen for a in o.data.get("attributes", [])}
    for kept in kept_on_ctx(owner):
        kind = kinds.get(kept.name) if seen else kept.kind
        if kind is not None:
            what = f"an {kind}" if kind[:1] in "aeiou" else f"a {kind}"
            yield Spot(kept.unit, kept.node, f"`ctx.{kept.name}` keeps {what} tensor outside `save_for_backward`.")


def _read_twice(owner: Owner, _: Observations) -> Iterator[Spot]:
    for unit in backwards(owner):
        reads = longest_path(unit.node.body, functools.partial(_is_read, unit))
        if len(reads) > 1:
            yield Spot(unit, reads[1], f"`{unit.role}` reads `ctx.saved_tensors` more than once.")


def _is_read(unit: Unit, node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and dotted(node) == f"{unit.params[0]}.saved_tensors"


def _never_used(owner: Owner, observations: Observations) -> Iterator[Spot]:
    if not observations.of("saved"):  # else GS404 knows better
        yield from unused_saved(owner)


_ABOUT = {"shape", "size", "ndim", "dim", "numel", "dtype", "device"}  # can be kept as they are


def _values_read(node: ast.AST) -> set[str]:
    """The names of which more is read than shape, dtype and device."""
    about = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in _ABOUT}
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return {n.id for n in names if id(n) not in about}


def unused_saved(owner: Owner, values: bool = False) -> Iterator[Spot]:
    """Names taken from ctx.saved_tensors that nothing reads, or nothing but for their shape and dtype."""
    units = backwards(owner)
    if len(units) != 1 or not any(r.value is not None for r in returns(units[0])):
        return
    unit = units[0]
    if len([n for n in ast.walk(unit.node) if _is_read(unit, n)]) != 1:
        return
    used = _values_read(unit.node) if values else loads(unit.node)
    if used & {"locals", "vars", "eval", "exec"}:
        return
    for node in unit.body():
        if isinstance(node, ast.Assign) and _is_read(unit, node.value):
            for target in node.targets:
                if isinstance(target, (ast.Tuple, ast.List)):
                    unused = [e.id for e in target.elts if isinstance(e, ast.Name) and e.id not in used]
                    for name in unused[:1]:
                        places = ", ".join(f"`{n}`" for n in unused)
                        message = (
                            f"Saved for backward and never used: {places}."
                            if name.strip("_")
                            else (f"{len(unused)} of {len(target.elts)} saved tensors are never used in backward.")
                        )
                        yield Spot(unit, node, message)


def _saved_twice(owner: Owner, _: Observations) -> Iterator[Spot]:
    if not owner.gradient:
        return
    for unit in owner.makers:
        found = [c for c in calls(unit, "save_for_backward") if dotted(c.func) == f"{unit.params[0]}.save_for_backward"]
        path = longest_path(unit.node.body, found.__contains__)
        if len(path) > 1:
            yield Spot(unit, path[1], "`save_for_backward` is called more than once; only the last call counts.")


_SCALED = """
import torch

class ScaledTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        y = torch.tanh(x)
        {keep}
        return scale * y

    @staticmethod
    def backward(ctx, grad_output):
        {take}
        slope = 1 - torch.tanh(x) ** 2
        return grad_output * scale * slope, (grad_output * torch.tanh(x)).sum_to_size(scale.shape)

subject = ScaledTanh.apply
inputs = (
    torch.tensor([[0.5, -1.2, 2.0], [-0.3, 1.1, -0.7]], requires_grad=True),
    torch.tensor([0.8, 1.5, -0.4], requires_grad=True),
)
"""


def _scaled(keep: str, take: str) -> str:
    space = "\n        "
    return _SCALED.format(keep=keep.replace("\n", space), take=take.replace("\n", space))


_GOOD = _scaled("ctx.save_for_backward(x, scale)", "x, scale = ctx.saved_tensors").replace(
    "y = torch.tanh(x)\n        ctx.save_for_backward(x, scale)\n        return scale * y",
    "ctx.save_for_backward(x, scale)\n        return scale * torch.tanh(x)",
)


def _called(example: str) -> str:
    """The same inside a function, where what is saved cannot be tried out."""
    return example.replace(
        "subject = ScaledTanh.apply", "def subject(x, scale):\n    return ScaledTanh.apply(x, scale)\n"
    )


RULES: list[Rule] = [
    rule(
        "GS904",
        "tensor-on-ctx",
        _on_ctx,
        summary="a tensor is kept as an attribute of ctx",
        why=(
            "What `save_for_backward` keeps is checked for later writes, freed after backward, seen by saved-tensor "
            "hooks (offloading, checkpointing) and handled by torch.func. An attribute has none of that: a later "
            "in-place change gives a wrong gradient without an error, and an output kept this way keeps itself alive. "
            "Numbers, shapes and flags are right where they are."
        ),
        mend="Hand the tensor to `ctx.save_for_backward(...)` and take it from `ctx.saved_tensors` in backward.",
        bad=_scaled("ctx.x, ctx.scale = x, scale\nctx.scale = scale\nctx.x = x", "x, scale = ctx.x, ctx.scale"),
        good=_GOOD,
    ),
    rule(
        "GS909",
        "saved-tensors-read-twice",
        _read_twice,
        summary="backward reads ctx.saved_tensors more than once",
        why=(
            "Each read unpacks every saved tensor again: hooks that offload to the CPU copy twice, and under "
            "`torch.utils.checkpoint` (use_reentrant=False) the second read is an error."
        ),
        mend="Unpack once at the top: `a, b = ctx.saved_tensors`.",
        bad=_scaled("ctx.save_for_backward(x, scale)", "x = ctx.saved_tensors[0]\nscale = ctx.saved_tensors[1]"),
        good=_GOOD,
    ),
    rule(
        "GS910",
        "saved-never-used",
        _never_used,
        summary="a tensor is saved for backward and backward never looks at it",
        why="It is kept in memory from forward to backward for nothing: often the largest tensor of a layer.",
        mend="Do not save it; if only its shape or type is needed, keep `x.shape` on ctx.",
        bad=_called(_scaled("ctx.save_for_backward(x, y, scale)", "x, y, scale = ctx.saved_tensors")),
        good=_called(_GOOD),
    ),
    rule(
        "GS919",
        "save-for-backward-twice",
        _saved_twice,
        summary="save_for_backward is called more than once in one forward pass",
        why="Each call replaces what the one before saved, so that backward gets the tensors of the last call only.",
        mend="Collect the tensors and save them with one call.",
        bad=_scaled("ctx.save_for_backward(x)\nctx.save_for_backward(x, scale)", "x, scale = ctx.saved_tensors"),
        good=_GOOD,
    ),
]
