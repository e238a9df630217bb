"""The forward of a declared function, run on flat leaves: tensors in, tensors out, nothing shared by accident."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from gradsmith.declare._capture import refuse_captured, refuse_reached
from gradsmith.declare._escape import OPAQUE_CALLS, EscapeWatch
from gradsmith.declare._lowered import lowered, worth_lowering
from gradsmith.declare._private import being_traced, is_view, not_compiled, unseen_by_modes, version_of
from gradsmith.declare._signature import Signature, listed
from gradsmith.declare._tree import LEAF, Structure, flatten, holds_objects, leaf_names, unflatten
from gradsmith.errors import DeclarationError

__all__ = ["Call", "Forward", "Kept", "keep"]

_NO_DERIVATIVE = "the forward of a declared function was differentiated; only its declared gradient may be"


class Call:
    """What one call carries beside its tensors: how its arguments and its output are built from leaves."""

    # Defaults on the class: most calls are made and used up without setting any of them.
    arguments: tuple[Structure, ...] | None = None  # one per parameter; None when every parameter is one leaf
    carriers = 0  # tensors that come before the leaves and only carry a gradient
    carrier: Structure = LEAF  # how they are built
    output: Structure = LEAF
    count = 1  # tensors in the output; the intermediates come after them
    kept: tuple[Structure, ...] = ()
    refusal: str | None = None  # why a backward of this call would be wrong

    @classmethod
    def of(cls, arguments: tuple[Structure, ...]) -> Call:
        call = cls()
        call.arguments = arguments
        return call

    def carried_by(self, carriers: Sequence[torch.Tensor], structure: Structure) -> None:
        self.carriers, self.carrier = len(carriers), structure

    def __repr__(self) -> str:
        return "Call()"  # the same for every call: torch.jit.trace compares what it traced twice

    def values(self, leaves: Sequence[Any]) -> Sequence[Any]:
        """The arguments, one per parameter."""
        if self.arguments is None:
            return leaves
        rest = iter(leaves)
        return [unflatten(structure, rest) for structure in self.arguments]

    def leaf_names(self, parameters: Sequence[str]) -> list[str]:
        """The name of every leaf: the parameter it belongs to and its place in it."""
        if self.arguments is None:
            return list(parameters)
        return [n for p, s in zip(parameters, self.arguments, strict=True) for n in leaf_names(s, p)]


class Kept:
    """An output together with the intermediates the backward may ask for."""

    __slots__ = ("intermediates", "output")

    def __init__(self, output: Any, intermediates: dict[str, Any]) -> None:
        self.output = output
        self.intermediates = intermediates

    def __repr__(self) -> str:
        return f"<output with intermediates {listed(self.intermediates)}, to be returned from a declared forward>"


def keep(output: Any, /, **intermediates: Any) -> Any:
    """Return `output` from a declared forward and keep intermediates by name for its backward.

    The names are announced where the function is declared: `@custom_gradient(keep=["mask"])`. Only those the
    backward asks for are saved. An intermediate may be a tensor of any shape, or a pytree of tensors.

    Example:
        >>> import torch, gradsmith as gs
        >>> @gs.custom_gradient(keep=["exponential"])
        ... def softplus(x):
        ...     exponential = torch.exp(x)
        ...     return gs.keep(torch.log1p(exponential), exponential=exponential)
        >>> @softplus.backward
        ... def _(grad, exponential):
        ...     return grad * exponential / (1 + exponential)
        >>> x = torch.zeros(2, requires_grad=True)
        >>> softplus(x).sum().backward()
        >>> x.grad
        tensor([0.5000, 0.5000])
    """
    return Kept(output, intermediates)


class Forward:
    """A callable and its parameters, run on the leaves of a `Call`."""

    def __init__(self, function: Callable[..., Any], keep: Sequence[str] = ()) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)
        self.signature = Signature(function)
        self.keep = tuple(keep)
        self.opaque = _names_opaque_calls(function)  # whether it hands numbers to something that is not PyTorch
        self._invoke = self.signature.caller(function)
        self._only_positional = self.signature.only_positional
        self._trusted = False

    def __call__(self, call: Call, leaves: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """The tensors of the output, then those of the intermediates; `call` learns their structure."""
        try:
            if call.arguments is None and self._trusted:  # the commonest case, without the general machinery
                result = self.function(*leaves) if self._only_positional else self._invoke(leaves)
                if isinstance(result, torch.Tensor) and not self.keep:
                    return (result.detach() if is_view(result) or _among(result, leaves) else result,)
                return self._own(self._flat(call, result), leaves)
            return self._general(call, leaves)
        except Exception as error:  # the author's forward may raise anything
            if not worth_lowering(error):
                raise
        return tuple(lowered(lambda values: self._general(call, values), leaves, _NO_DERIVATIVE))

    def _general(self, call: Call, leaves: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        if not self._trusted or (call.arguments is not None and any(map(holds_objects, call.arguments))):
            return self._checked(call, leaves)
        return self._own(self._flat(call, self._invoke(call.values(leaves))), leaves)

    def _flat(self, call: Call, result: Any) -> list[torch.Tensor]:
        if not self.keep and isinstance(result, torch.Tensor):
            return [result]
        leaves: list[torch.Tensor] = []
        kept: dict[str, Any] = {}
        if isinstance(result, Kept):
            result, kept = result.output, result.intermediates
        if kept.keys() != set(self.keep):
            cure = (
                f"write @custom_gradient(keep={sorted(kept)})" if kept else "end with return keep(output, name=tensor)"
            )
            raise DeclarationError(
                f"{self.name} kept {listed(kept)}, but its declaration announces {listed(self.keep)}; {cure}"
            )
        call.output = flatten(result, leaves)
        call.count = len(leaves)
        if not leaves:
            raise DeclarationError(f"{self.name} returned {result!r}, which holds no tensor")
        call.kept = tuple([flatten(kept[name], leaves) for name in self.keep])
        return leaves

    def _own(self, outputs: list[torch.Tensor], leaves: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Give every output a tensor of its own: an input, a view or a second mention becomes an alias.

        An alias shares memory and version counter, so it costs nothing, may be written to later, and a write that
        would spoil a saved tensor is still noticed.
        """
        seen = {id(leaf) for leaf in leaves}
        for i, output in enumerate(outputs):
            if id(output) in seen or is_view(output):
                outputs[i] = output.detach()
            seen.add(id(output))
        return tuple(outputs)

    def differentiable(self, call: Call, leaves: Sequence[Any]) -> Sequence[torch.Tensor]:
        """The same tensors with the graph autograd records for them, nothing cut off."""
        return self._flat(call, self._invoke(call.values(leaves)))

    @not_compiled
    def _checked(self, call: Call, leaves: Sequence[Any]) -> tuple[torch.Tensor, ...]:
        """Run with autograd on and inputs cut off, to see what the author may not have meant.

        Once is enough, unless tensors are captured or objects passed that may require grad the next time, or the
        numbers go where PyTorch does not see them.
        """
        suspects = refuse_captured(self.function, self.name)
        inputs = [_cut_off(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        before = [version_of(leaf) for leaf in leaves]
        with torch.enable_grad(), EscapeWatch() as watch:
            outputs = self._flat(call, self._invoke(call.values(inputs)))
        refuse_reached(outputs, self.name)
        names = call.leaf_names(self.signature.names)
        for name, leaf, version in zip(names, leaves, before, strict=True):
            if version_of(leaf) != version:
                raise DeclarationError(
                    f"{self.name} modified its argument {name!r} in place; compute a new tensor instead "
                    f"(for example {name} + 1, not {name}.add_(1))"
                )
        self.opaque = self.opaque or watch.opaque
        if self.opaque and being_traced():
            raise DeclarationError(
                f"{self.name} cannot be traced into a graph: it hands numbers to code outside PyTorch, so the graph "
                f"would hold the numbers of this one call. Trace around it"
            )
        self._trusted = not suspects and not self.opaque and not torch.is_inference_mode_enabled()
        return self._own([o.detach() if o.requires_grad else o for o in outputs], [*leaves, *inputs])


def _cut_off(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its graph. An outer watch need not know of it (nor a subclass lose itself)."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return tensor.detach()
    with unseen_by_modes():
        return tensor.detach()


def _among(tensor: torch.Tensor, values: Sequence[Any]) -> bool:
    for value in values:  # noqa: SIM110  # a generator would cost as much again as the whole loop
        if value is tensor:
            return True
    return False


def _names_opaque_calls(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(function, "__code__", None)
    return code is not None and not (OPAQUE_CALLS | {"from_numpy"}).isdisjoint(code.co_names)
