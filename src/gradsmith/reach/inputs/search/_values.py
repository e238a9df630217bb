"""Values for arguments that can be made and written down: each says how it looks as Python."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Literal", "Tensor", "Tensors", "Value"]


@dataclass(frozen=True)
class Literal:
    """A value that is no tensor.

    Args:
        value: It.
        text: How it is written; `repr` where empty. What has no such form is written as `...` with its type.
    """

    value: Any
    text: str = ""

    def make(self, generator: torch.Generator) -> Any:
        return copy.copy(self.value) if isinstance(self.value, (list, dict)) else self.value

    def code(self) -> str:
        if self.text:
            return self.text
        if isinstance(self.value, float) and not math.isfinite(self.value):
            return f'float("{self.value}")'
        said = repr(self.value)
        if isinstance(self.value, torch.Tensor):
            return f"torch.{said}"
        return f"... ({type(self.value).__name__})" if said.startswith("<") or " at 0x" in said else said


_FLOAT: dict[str, tuple[Callable[..., torch.Tensor], str]] = {
    "normal": (lambda s, g: torch.randn(s, generator=g), "torch.randn({})"),
    "positive": (lambda s, g: 0.5 + torch.rand(s, generator=g), "0.5 + torch.rand({})"),
    "unit": (lambda s, g: 0.1 + 0.8 * torch.rand(s, generator=g), "0.1 + 0.8 * torch.rand({})"),
    "simplex": (lambda s, g: torch.randn(s, generator=g).softmax(-1), "torch.randn({}).softmax(-1)"),
    "complex": (
        lambda s, g: torch.randn(s, generator=g, dtype=torch.complex64),
        "torch.randn({}, dtype=torch.complex64)",
    ),
    "increasing": (
        lambda s, g: torch.rand(s, generator=g).add(0.1).cumsum(-1),
        "torch.rand({}).add(0.1).cumsum(-1)",
    ),
    "binary": (lambda s, g: (torch.rand(s, generator=g) < 0.5).float(), "(torch.rand({}) < 0.5).float()"),
    "filter": (lambda s, g: torch.randn(s, generator=g), "torch.randn({})"),
    "definite": (
        lambda s, g: (a := torch.randn(s, generator=g)) @ a.mT + 2 * torch.eye(s[-1]),
        "(lambda a: a @ a.mT + 2 * torch.eye(a.shape[-1]))(torch.randn({}))",
    ),
}
_PLAIN = ("normal", "filter")


@dataclass(frozen=True)
class Tensor:
    """A tensor. Those of floating point require grad.

    Args:
        kind: "normal", "positive", "unit" (between 0 and 1), "simplex", "increasing" (along the last dim), "complex",
            "definite" (symmetric, positive), "binary" (0.0 and 1.0), "filter" (short, of as many dims as the signal),
            "index" (integers below `high`), "mask" (bool).
        shape: Its sizes.
        high: The bound of an index.
        still: Whether it requires no grad.
    """

    kind: str = "normal"
    shape: tuple[int, ...] = (3, 4)
    high: int = 3
    still: bool = False

    def make(self, generator: torch.Generator) -> torch.Tensor:
        if self.kind == "index":
            return torch.randint(0, self.high, self.shape, generator=generator)
        if self.kind == "mask":
            return torch.rand(self.shape, generator=generator) < 0.7
        return _FLOAT[self.kind][0](self.shape, generator).detach().requires_grad_(not self.still)

    def code(self) -> str:
        sizes = ", ".join(map(str, self.shape)) or "()"
        if self.kind == "index":
            return f"torch.randint(0, {self.high}, {self.shape})"
        if self.kind == "mask":
            return f"torch.rand({sizes}) < 0.7"
        text = _FLOAT[self.kind][1].format(sizes)
        if self.still:
            return text
        return f"{text[:-1]}, requires_grad=True)" if self.kind in _PLAIN else f"({text}).requires_grad_()"


@dataclass(frozen=True)
class Tensors:
    """A list of tensors."""

    items: tuple[Tensor, ...]

    def make(self, generator: torch.Generator) -> list[torch.Tensor]:
        return [item.make(generator) for item in self.items]

    def code(self) -> str:
        return f"[{', '.join(item.code() for item in self.items)}]"


Value = Literal | Tensor | Tensors
