"""A call before it is made: a value for each argument, and the shapes its tensors have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import torch

from gradsmith.reach.inputs._call import Call
from gradsmith.reach.inputs.search._values import Literal, Tensor, Tensors, Value

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

    def resized(self) -> Iterator[Draft]:
        """The draft with other sizes: all of them, then only those that are equal to the first one."""
        first = next((v.shape[0] for v in self.args if isinstance(v, Tensor) and v.shape), 0)
        for grows in (lambda n: n > 1, lambda n: n == first > 1):
            yield replace(self, args=tuple(_grown(v, grows) for v in self.args))

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
    if isinstance(value, Tensors):
        return Tensors(tuple(replace(t, shape=shape) if t.shape == _PLAIN else t for t in value.items))
    if value.shape != _PLAIN:
        return value
    if value.kind == "filter":
        return replace(value, shape=(*(1 for _ in shape[1:]), 4))
    if value.kind == "index":
        return replace(value, shape=shape[:-1], high=max(shape[-1] if shape else 1, 1))
    if value.kind == "definite":
        return replace(value, shape=(*shape[:-2], shape[-1], shape[-1]) if shape else (3, 3))
    return replace(value, shape=shape)


def _grown(value: Value, grows: Callable[[int], bool]) -> Value:
    if not isinstance(value, Tensor):
        return value
    high = value.high + 1 if value.kind == "index" and grows(value.high) else value.high
    return replace(value, shape=tuple(n + 1 if grows(n) else n for n in value.shape), high=high)
