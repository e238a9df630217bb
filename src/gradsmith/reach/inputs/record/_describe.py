"""What a call looks like: in words, and as a signature that calls alike share."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

__all__ = ["in_words", "kind_of", "map_tensors", "signature", "tensors_in"]

_DEEPEST = 4  # containers in containers
_MOST_ITEMS = 64
_PLAIN = (bool, int, float, complex, str, bytes, slice, type(None), type(...), torch.dtype, torch.device, torch.Size)


def tensors_in(value: Any, deep: int = 0) -> Iterator[torch.Tensor]:
    """The tensors among arguments, in the containers that are looked into."""
    if isinstance(value, torch.Tensor):
        yield value
    elif deep < _DEEPEST and type(value) in (tuple, list):
        for item in value[:_MOST_ITEMS]:
            yield from tensors_in(item, deep + 1)
    elif deep < _DEEPEST and type(value) is dict:
        for item in list(value.values())[:_MOST_ITEMS]:
            yield from tensors_in(item, deep + 1)


def map_tensors(change: Callable[[torch.Tensor], torch.Tensor], value: Any, deep: int = 0) -> Any:
    """The same arguments with their tensors changed."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if deep < _DEEPEST and type(value) in (tuple, list):
        return type(value)(map_tensors(change, item, deep + 1) for item in value)
    if deep < _DEEPEST and type(value) is dict:
        return {key: map_tensors(change, item, deep + 1) for key, item in value.items()}
    return value


def signature(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Equal for calls with the same shapes, dtypes, needs and plain values."""
    return hashlib.sha256(repr((_form(args), _form(kwargs))).encode(errors="replace")).hexdigest()[:16]


def _form(value: Any, deep: int = 0) -> Any:
    if isinstance(value, torch.Tensor):
        return (_shape(value), str(value.dtype), value.requires_grad, _strides(value))
    if deep < _DEEPEST and type(value) in (tuple, list):
        return [_form(item, deep + 1) for item in value[:_MOST_ITEMS]]
    if deep < _DEEPEST and type(value) is dict:
        return [(repr(key)[:80], _form(item, deep + 1)) for key, item in list(value.items())[:_MOST_ITEMS]]
    plain = type(value) in _PLAIN or isinstance(value, enum.Enum)
    return repr(value)[:200] if plain else kind_of(value)


def _shape(tensor: torch.Tensor) -> tuple[int, ...]:
    return () if tensor.is_nested else tuple(tensor.shape)


def _strides(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided or tensor.is_nested:
        return str(tensor.layout)
    if tensor.is_contiguous():
        return "contiguous"
    return "expanded" if 0 in tensor.stride() else "strided"


def in_words(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """The arguments on one line: "float32[3, 4]*, 0.5, a Solver"; the star marks what requires grad."""
    said = [_said(value) for value in args[:_MOST_ITEMS]]
    said += [f"{name}={_said(value)}" for name, value in kwargs.items()]
    text = ", ".join(said)
    return text if len(text) <= 300 else f"{text[:296]} ..."


def _said(value: Any, deep: int = 0) -> str:
    if isinstance(value, torch.Tensor):
        kind = "" if type(value) in (torch.Tensor, torch.nn.Parameter) else f"{type(value).__name__} "
        star = "*" if value.requires_grad else ""
        return f"{kind}{str(value.dtype).removeprefix('torch.')}{list(_shape(value))}{star}"
    if type(value) in (tuple, list) and deep < _DEEPEST:
        inside = ", ".join(_said(item, deep + 1) for item in value[:6]) + (", ..." if len(value) > 6 else "")
        return f"[{inside}]" if type(value) is list else f"({inside})"
    if type(value) in _PLAIN:
        return repr(value)[:40]
    return kind_of(value)


def kind_of(value: Any) -> str:
    """A value by its type alone, with the article: nothing of the program's own is run."""
    name = type(value).__qualname__.replace("<locals>.", "")
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"
