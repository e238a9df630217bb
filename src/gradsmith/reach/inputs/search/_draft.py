"""A call before it is made: a value for each argument, and the shapes its tensors have."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.search._values import Literal, Tensor, Value

__all__ = ["Draft", "reshaped"]

_PLAIN = Tensor().shape  # stands for "of the shape of the call"


@dataclass(frozen=True)
class Draft:
    """What may be called.

    Args:
        args: For each positional argument its value.
        kwargs: The same for those passed by name.
        source: "call site" or "search".
        where: File and line of the call site.
        names: Of the positional arguments, as far as they are known.
    """

    args: tuple[Value, ...]
    kwargs: dict[str, Value] = field(default_factory=dict)
    source: str = "search"
    where: str = ""
    names: tuple[str, ...] = ()

    def with_arg(self, place: int, value: Value) -> Draft:
        return replace(self, args=(*self.args[:place], value, *self.args[place + 1 :]))

    def shaped(self, shape: tuple[int, ...]) -> Draft:
        """The draft with all tensors of one shape, and what goes with it: indices, masks, the shape itself."""
        return replace(
            self,
            args=tuple(_shaped(v, shape) for v in self.args),
            kwargs={k: _shaped(v, shape) for k, v in self.kwargs.items()},
        )

    def coupled(self, shapes: tuple[tuple[int, ...], ...]) -> Draft | None:
        """The draft with a shape for each of its float tensors; None where their number is another."""
        places = self.tensors
        if len(places) != len(shapes):
            return None
        args = list(self.args)
        for place, shape in zip(places, shapes, strict=True):
            args[place] = reshaped(args[place], shape)
        return replace(self, args=tuple(args))

    def of_kind(self, kind: str) -> Draft:
        """The draft with other numbers in its tensors."""
        args = tuple(replace(v, kind=kind) if isinstance(v, Tensor) and v.kind == "normal" else v for v in self.args)
        return replace(self, args=args)

    def resized(self) -> Draft:
        """The draft with every size that is no small contract made larger."""
        args = tuple(
            replace(v, shape=tuple(n + 1 if n == v.shape[0] and n > 1 else n for n in v.shape))
            if isinstance(v, Tensor) and v.shape
            else v
            for v in self.args
        )
        return replace(self, args=args)

    @property
    def tensors(self) -> list[int]:
        """The places of tensors of floating point."""
        return [i for i, v in enumerate(self.args) if isinstance(v, Tensor) and v.kind not in ("index", "mask")]

    def call(self, seed: int = 0) -> Call:
        generator = torch.Generator().manual_seed(seed)
        args = tuple(v.make(generator) for v in self.args)
        kwargs = {k: v.make(generator) for k, v in self.kwargs.items()}
        return Call(args, kwargs, self.source, self.where, written=self.code())

    def code(self) -> tuple[str, ...]:
        """The arguments as they are written."""
        return (*(v.code() for v in self.args), *(f"{k}={v.code()}" for k, v in self.kwargs.items()))


def reshaped(value: Value, shape: tuple[int, ...]) -> Value:
    return replace(value, shape=shape) if isinstance(value, Tensor) else value


def _shaped(value: Value, shape: tuple[int, ...]) -> Value:
    if isinstance(value, Literal):
        return Literal(shape) if value.value == "shape" and isinstance(value.value, str) else value
    if value.shape != _PLAIN:
        return value
    if value.kind == "index":
        return replace(value, shape=shape[:-1], high=max(shape[-1] if shape else 1, 1))
    if value.kind == "definite":
        return replace(value, shape=(*shape[:-2], shape[-1], shape[-1]) if shape else (3, 3))
    return replace(value, shape=shape)
