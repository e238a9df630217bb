"""From bound arguments to an output: which form of a rule runs where.

* eager, nothing transformed: the cheap form (one `autograd.Function` node in ctx style);
* `torch.func` and forward mode: the full form (`setup_context`, vmap rule, jvp);
* `torch.compile`: one opaque node that runs the full form. Dynamo does not look inside, where it would drop the
  custom backward under `torch.func`; AOTAutograd traces through it with the real transforms around it, so the
  compiled graph holds the declared gradient, to any order, as ordinary operations;
* no gradient wanted: the forward alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from gradsmith.declare._forward import Call, Forward
from gradsmith.declare._private import (
    constant_while_tracing,
    forward_ad,
    functorch_is_active,
    is_compiling,
    one_node_while_tracing,
    real_constants_allowed,
)
from gradsmith.declare._tree import (
    LEAF,
    Structure,
    flatten,
    holds_objects,
    is_number,
    is_tensor,
    unflatten,
    with_named_classes,
)

__all__ = ["Rule", "make_run"]

# Arguments of these types are one leaf each; anything else is looked into.
_FLAT_TYPES = frozenset(
    {torch.Tensor, torch.nn.Parameter, int, float, bool, complex, type(None), str, torch.dtype, torch.device}
)


class Rule(Protocol):
    """A declared gradient, ready to run on leaves."""

    forward: Forward
    has_carriers: bool  # whether the gradient is that of tensors computed in the open

    def plain(self, call: Call, leaves: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The outputs where no gradient is wanted."""

    def carriers(self, values: Sequence[Any]) -> tuple[list[torch.Tensor], Structure]:
        """Those tensors, and how the value they stand for is built; they come before the leaves."""

    eager: Callable[..., tuple[torch.Tensor, ...]]  # (call, *carriers, *leaves)
    full: Callable[..., tuple[torch.Tensor, ...]]


def make_run(rule: Rule, declared: Callable[..., Any]) -> Callable[[tuple[Any, ...]], Any]:
    """The function that the wrapper of a declared function hands its bound arguments to."""
    forward, eager, full, has_carriers = rule.forward, rule.eager, rule.full, rule.has_carriers

    def run(values: tuple[Any, ...]) -> Any:
        if is_compiling():
            return uncompiled(values) if forward.opaque else compiled(values)
        leaves: Sequence[Any] = values
        for value in values:
            if type(value) not in _FLAT_TYPES and not _is_empty(value):
                if isinstance(value, torch.fx.Proxy):  # torch.fx traces: the declared function is one node
                    return value.tracer.create_proxy("call_function", declared, *forward.signature.arguments(values))
                leaves = []
                call = Call.of(tuple([flatten(value, leaves) for value in values]))
                break
        else:
            call = Call()
        transformed = functorch_is_active() or forward_ad._current_level >= 0
        if not transformed and not torch.is_grad_enabled():
            outputs = rule.plain(call, leaves)
        else:
            form = full if transformed else eager
            if has_carriers:
                carriers, structure = rule.carriers(values)
                call.carried_by(carriers, structure)
                outputs = form(call, *carriers, *leaves)
            else:
                outputs = form(call, *leaves)
        return outputs[0] if call.output is LEAF else unflatten(call.output, iter(outputs))

    def uncompiled(values: tuple[Any, ...]) -> Any:
        return run(values)

    reason = f"{forward.name} hands its numbers to code that torch.compile cannot trace"
    objects = f"{forward.name} takes an object, such as the self of a method, whose state torch.compile would not watch"
    with_objects = torch.compiler.disable(uncompiled, reason=objects)
    uncompiled = torch.compiler.disable(uncompiled, reason=reason)

    @one_node_while_tracing
    def in_graph(key: int, count: int, *inputs: Any) -> tuple[torch.Tensor, ...]:
        arguments, carrier = _structures[key]
        call = Call.of(arguments)
        call.carried_by(inputs[:count], carrier)
        with real_constants_allowed():
            outputs = full(call, *inputs)
        _outputs[key] = with_named_classes(call.output)
        return outputs

    def compiled(values: tuple[Any, ...]) -> Any:
        leaves: list[Any] = []
        arguments = tuple([flatten(value, leaves, _is_graph_leaf) for value in values])
        if any(holds_objects(structure) for structure in arguments):
            return with_objects(values)
        carriers, carrier = rule.carriers(values) if has_carriers else ([], None)
        key = _remember(arguments, carrier)
        outputs = in_graph(key, len(carriers), *carriers, *leaves)
        return unflatten(_output_structure(key), iter(outputs))

    return run


# Structures are no graph values: while torch.compile traces, they wait here under a number that is one.
_structures: list[tuple[tuple[Structure, ...], Structure]] = []
_outputs: dict[int, Structure] = {}


def _is_empty(value: Any) -> bool:
    """The *args and **kwargs of most calls."""
    return type(value) in (tuple, dict) and not value


def _is_graph_leaf(value: Any) -> bool:
    return is_tensor(value) or is_number(value)


@constant_while_tracing
def _remember(arguments: tuple[Structure, ...], carrier: Structure) -> int:
    _structures.append((arguments, carrier))
    return len(_structures) - 1


@constant_while_tracing
def _output_structure(key: int) -> Structure:
    return _outputs[key]
