"""The inputs a subject is judged on: their tensors taken out, changed, and put in again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]

from gradsmith.check._guard import text_of
from gradsmith.check._subject import Subject
from gradsmith.declare._tree import Structure, flatten, leaf_names, unflatten
from gradsmith.errors import DeclarationError, UsageError

__all__ = ["Sample", "is_symmetric", "is_tiny", "sample_of", "unusable"]


@dataclass(frozen=True)
class Sample:
    """Arguments of one call.

    Attributes:
        name: In words, how it differs from what the author gave: "as given", "last size 1".
        tensors: The tensors among the arguments, without history.
        needs: For each, whether its gradient is wanted.
        names: For each, what the author calls it.
        structure: How (parameters,) args and kwargs are built from them.
    """

    name: str
    tensors: tuple[torch.Tensor, ...]
    needs: tuple[bool, ...]
    names: tuple[str, ...]
    structure: Structure
    fixed: int = 0  # so many tensors at the beginning are parameters of a module: their shapes stay

    def arguments(self, tensors: Iterable[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Args and kwargs that hold these tensors."""
        args, kwargs = unflatten(self.structure, iter(tensors))
        return args, kwargs

    def with_tensors(self, name: str, tensors: Iterable[torch.Tensor]) -> Sample:
        return replace(self, name=name, tensors=tuple(tensors))

    def map(self, name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Sample:
        """The sample with the floating-point tensors changed."""
        return self.with_tensors(name, [change(t) if is_float(t) else t for t in self.tensors])

    def to(self, dtype: torch.dtype, name: str | None = None) -> Sample:
        """The sample in another precision; complex tensors in the complex type of that precision."""
        return self.map(name or self.name, lambda t: t.to(dtype.to_complex() if t.is_complex() else dtype))

    @property
    def needed(self) -> list[int]:
        return [i for i, n in enumerate(self.needs) if n]

    @property
    def size(self) -> int:
        return sum(t.numel() for t in self.tensors)

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the first input a gradient is wanted for."""
        dtype = self.tensors[self.needed[0]].dtype
        return dtype.to_real() if dtype.is_complex else dtype

    def described(self) -> list[dict[str, Any]]:
        return [
            {
                "name": n,
                "shape": list(t.shape),
                "dtype": _dtype(t),
                "requires_grad": g,
                "layout": layout_of(t),
                "symmetric": is_symmetric(t),
            }
            for n, t, g in zip(self.names, self.tensors, self.needs, strict=True)
        ]


def is_float(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def is_symmetric(t: torch.Tensor) -> bool:
    """Whether it holds symmetric matrices, and not just one number."""
    if not is_float(t) or t.dim() < 2 or t.shape[-1] != t.shape[-2] or t.shape[-1] < 2 or not t.numel():
        return False
    return bool(torch.isclose(t, t.mT, rtol=1e-4).all()) and not bool((t == t.reshape(-1)[0]).all())


def is_tiny(dtype: torch.dtype) -> bool:
    """Whether it is one of the 8-bit or smaller floating-point types, which can be stored and not computed with."""
    return dtype.is_floating_point and dtype.itemsize < 2


def unusable(tensor: torch.Tensor) -> str:
    """Why a tensor cannot be calculated with; empty where it can."""
    if tensor.layout is not torch.strided:
        return f"is a {tensor.layout} tensor; only dense tensors can be checked"
    if tensor.device.type == "meta" or type(tensor).__name__ == "FakeTensor":
        return "has no data; pass a tensor on a device that computes"
    if is_tiny(tensor.dtype) and tensor.requires_grad:
        return f"is {_dtype(tensor)} and requires grad, a type PyTorch does not compute with; pass a wider one"
    return ""


def layout_of(tensor: torch.Tensor) -> str:
    if tensor.is_contiguous():
        return "contiguous" if tensor.storage_offset() == 0 else "contiguous, offset"
    return "expanded" if 0 in tensor.stride() else "strided"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def sample_of(subject: Subject, inputs: Any, kwargs: dict[str, Any] | None, device: Any) -> Sample:
    """The author's inputs as a sample, or a `UsageError` that says what cannot be used about them."""
    args = _as_tuple(inputs)
    if kwargs is not None and not isinstance(kwargs, dict):
        raise UsageError(f"kwargs: got {type(kwargs).__name__}; expected a dict of keyword arguments")
    if odd := [key for key in kwargs or {} if not isinstance(key, str)]:
        raise UsageError(f"kwargs: got the key {odd[0]!r}; expected names of parameters, as strings")
    if subject.parameters:
        args = (dict(subject.parameters), *args)
    tensors: list[torch.Tensor] = []
    try:
        structure = flatten((args, dict(kwargs or {})), tensors)
    except DeclarationError as error:
        raise UsageError(f"inputs: {error}") from None
    names = _names(subject, structure, kwargs or {})
    given = len(tensors) - len(subject.parameters)
    if not tensors or (not given and not subject.parameters):
        raise UsageError("inputs: got no tensor; pass the tensors the function is called with, as a tuple")
    for name, tensor in zip(names, tensors, strict=True):
        if isinstance(tensor, UninitializedTensorMixin):
            raise UsageError(f"subject: {name} is not initialized yet; call the module once before it is checked")
        if why := unusable(tensor):
            raise UsageError(f"inputs: {name} {why}")
        if tensor.requires_grad and bool(tensor.detach().isnan().any()):
            raise UsageError(f"inputs: {name} holds nan, where there is no gradient; pass numbers")
    if not any(t.requires_grad for t in tensors):
        floats = [n for n, t in zip(names, tensors, strict=True) if is_float(t)]
        if not floats:
            raise UsageError(
                "inputs: all are integer or bool tensors, which have no gradient; pass a floating-point tensor with "
                "requires_grad=True"
            )
        raise UsageError(
            f"inputs: none requires grad; call requires_grad_() on those whose gradient is to be checked, such as "
            f"{floats[0]}"
        )
    needs = tuple(t.requires_grad for t in tensors)
    where = None if device is None else _device(device)
    clean = [_data(t) if where is None else _data(t).to(where) for t in tensors]
    return Sample("as given", tuple(clean), needs, tuple(names), structure, len(subject.parameters))


def _device(device: Any) -> torch.device:
    try:
        found = torch.device(device)
        torch.empty(1, device=found).cpu()
    except Exception as error:  # noqa: BLE001  (each backend has errors of its own)
        raise UsageError(
            f"device: got {device!r}, which cannot be used here: {text_of(error).splitlines()[0]}"
        ) from None
    return found


def _data(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor without its history; one made in inference mode is copied, or autograd would refuse it."""
    return tensor.detach().clone() if tensor.is_inference() else tensor.detach()


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    if isinstance(inputs, torch.Tensor):
        return (inputs,)
    if isinstance(inputs, list):
        return tuple(inputs)
    if isinstance(inputs, tuple) and not hasattr(inputs, "_fields"):
        return inputs
    if isinstance(inputs, str) or inputs is None:
        raise UsageError(f"inputs: got {inputs!r}; expected a tensor or a tuple of the arguments")
    return (inputs,)


def _names(subject: Subject, structure: Structure, kwargs: dict[str, Any]) -> list[str]:
    """A name for each tensor: the parameter it belongs to and its place in it."""
    arguments, keywords = structure[3]
    known = subject.parameter_names
    found: list[str] = []
    children = list(arguments[3])
    if subject.parameters:
        found += list(subject.parameters)
        children = children[1:]
    for place, child in enumerate(children):
        found += leaf_names(child, known[place] if place < len(known) else f"input {place}")
    for key, child in zip(keywords[2], keywords[3], strict=True):
        found += leaf_names(child, str(key))
    return found
