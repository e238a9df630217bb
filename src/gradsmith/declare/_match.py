"""What a backward returned, held against the inputs it is the gradient of.

The engine would broadcast, sum and cast a wrong gradient into shape without a word. Here it is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch

from gradsmith.declare._forward import Call, Forward
from gradsmith.declare._signature import listed
from gradsmith.declare._tree import LEAF, Structure, count_leaves, open_like
from gradsmith.errors import GradientError

__all__ = ["Target", "match", "target_of"]

Target = tuple[torch.Size, torch.dtype, torch.device]


def target_of(leaf: Any) -> Target | None:
    """What the gradient of this input must look like; None where it has none."""
    if not isinstance(leaf, torch.Tensor) or not (leaf.is_floating_point() or leaf.is_complex()):
        return None
    return leaf.shape, leaf.dtype, leaf.device


def match(
    forward: Forward,
    call: Call,
    result: Any,
    targets: Sequence[Target | None],
    needs: Sequence[bool],
    *,
    cast: bool,
) -> list[torch.Tensor | None]:
    """One gradient per input leaf, each of its input's shape, dtype and device; None where there is none."""
    if call.arguments is None and isinstance(result, torch.Tensor):
        for i, target in enumerate(targets):
            if target is not None:
                if any(t is not None for t in targets[i + 1 :]):
                    break
                single: list[torch.Tensor | None] = [None] * len(targets)
                single[i] = _checked(forward, forward.signature.names[i], result, target, cast)
                return single
    return _by_name(forward, call, result, targets, needs, cast)


def _by_name(
    forward: Forward,
    call: Call,
    result: Any,
    targets: Sequence[Target | None],
    needs: Sequence[bool],
    cast: bool,
) -> list[torch.Tensor | None]:
    names = forward.signature.names
    structures = call.arguments or (LEAF,) * len(names)
    starts = [0]
    for structure in structures:
        starts.append(starts[-1] + count_leaves(structure))
    spans = [range(a, b) for a, b in pairwise(starts)]
    differentiable = [n for n, span in zip(names, spans, strict=True) if any(targets[i] is not None for i in span)]
    given = _named(forward, result, differentiable, dict(zip(names, structures, strict=True)))

    gradients: list[torch.Tensor | None] = [None] * len(targets)
    for name, structure, span in zip(names, structures, spans, strict=True):
        if name not in differentiable:
            if given.get(name) is not None:
                raise GradientError(
                    f"the backward of {forward.name} returns a gradient for {name!r}, which has none: it is no "
                    f"floating-point or complex tensor in this call. Leave {name!r} out or give None"
                )
        elif name in given:
            found: list[tuple[str, Any]] = []
            _walk(forward, structure, given[name], name, found)
            for i, (path, gradient) in zip(span, found, strict=True):
                target = targets[i]
                if target is None and gradient is not None:
                    raise GradientError(
                        f"the backward of {forward.name} returns a gradient for {path}, which has none: it is no "
                        f"floating-point or complex tensor. Give None there"
                    )
                if target is not None and gradient is not None:
                    gradients[i] = _checked(forward, path, gradient, target, cast)
        elif any(needs[i] for i in span):
            raise GradientError(
                f"the backward of {forward.name} returns no gradient for {name!r}; it returned {listed(given)}. "
                f"Add {name!r} (None says that it has no gradient)"
            )
    return gradients


def _named(
    forward: Forward, result: Any, differentiable: list[str], structures: dict[str, Structure]
) -> dict[str, Any]:
    """The result as a dict from parameter name to gradient."""
    only = differentiable[0] if len(differentiable) == 1 else None
    if isinstance(result, dict) and not (only and _is_itself(structures, only, result)):
        unknown = [n for n in result if n not in structures]
        if unknown:
            raise GradientError(
                f"the backward of {forward.name} returns a gradient for {listed(unknown)}, which is no parameter of "
                f"{forward.name}; its parameters are {listed(structures)}"
            )
        return result
    if only is None:
        raise GradientError(
            f"the backward of {forward.name} returns {_described(result)}; {forward.name} has several differentiable "
            f"inputs, so return a dict with one gradient each: {{{', '.join(f'{n!r}: ...' for n in differentiable)}}}"
        )
    if result is None:
        raise GradientError(
            f"the backward of {forward.name} returns None; return the gradient of {only!r} "
            f"(a `return` may be missing; {{{only!r}: None}} says that there is none)"
        )
    return {only: result}


def _is_itself(structures: dict[str, Structure], only: str, result: dict[Any, Any]) -> bool:
    """Whether the dict is the gradient of the one input, itself a dict, and not `{name of the input: gradient}`."""
    structure = structures[only]
    if isinstance(structure, str) or structure[0] not in ("dict", "OrderedDict"):
        return False
    return set(result) == set(structure[2]) or not set(result) <= set(structures)


def _walk(forward: Forward, structure: Structure, gradient: Any, path: str, found: list[tuple[str, Any]]) -> None:
    """Take a gradient apart along the structure of its input."""
    if isinstance(structure, str):
        found.append((path, gradient))
        return
    if gradient is None:
        found += [(path, None)] * count_leaves(structure)
        return
    if structure[0] == "=":
        if not isinstance(gradient, torch.Tensor):
            return  # a container built like the input may well repeat its constants
        raise GradientError(
            f"the backward of {forward.name} returns a gradient for {path}, which is no tensor; give None there"
        )
    try:
        children = open_like(structure, gradient, path)
    except (KeyError, IndexError, AttributeError, TypeError) as error:
        raise GradientError(
            f"the backward of {forward.name} returns {_described(gradient)} for {path}; a gradient must be built like "
            f"{path} itself, a {structure[1].__name__ if structure[1] else structure[0]} (missing: {error})"
        ) from None
    for child, value, name in children:
        _walk(forward, child, value, name, found)


def _checked(forward: Forward, path: str, gradient: Any, target: Target, cast: bool) -> torch.Tensor:
    shape, dtype, device = target
    if not isinstance(gradient, torch.Tensor):
        wrong = f"is {_described(gradient)}, expected a tensor of shape {list(shape)}"
    elif gradient.shape != shape:
        wrong = f"has shape {list(gradient.shape)}, expected {list(shape)}; sum over what was broadcast"
    elif gradient.device != device:
        wrong = f"is on {gradient.device}, expected {device}; move it there"
    elif gradient.dtype == dtype:
        return gradient
    elif cast and gradient.dtype.is_floating_point and dtype.is_floating_point:
        return gradient.to(dtype)  # autocast chose another precision for the forward, and so for the backward
    else:
        wrong = f"has dtype {gradient.dtype}, expected {dtype}; convert it with .to({path}.dtype)"
    raise GradientError(f"the gradient that the backward of {forward.name} returns for {path!r} {wrong}")


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor of shape {list(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"
