"""A variant is one way to run a case, a function that asserts the declared gradient by value. A group is a list."""

from __future__ import annotations

import functools
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tests.transforms.cases import Case, Refusal
from tests.transforms.expected import Expected, Tensors, inputs_of

# What a variant may need of a case, and the words for the table where it does not have it.
NEEDS: dict[str, tuple[Callable[[Case], bool], str]] = {
    "complex": (lambda case: case.complex, "defined for real numbers only"),
    "a number": (lambda case: bool(case.options), "takes no number"),
    "any shape": (lambda case: case.any_shape, "takes matrices only"),
    "two inputs": (lambda case: len(case.shapes) > 1, "takes one tensor"),
    "two outputs": (lambda case: case.outputs > 1, "returns one tensor"),
}


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    name: str
    function: Callable[..., None]
    arguments: tuple[Any, ...] = ()
    needs: str | None = None
    tags: frozenset[str] = frozenset()
    slow: bool = False

    def run(self, case: Case) -> None:
        """Assert that the case is right in this variant."""
        self.function(case, *self.arguments)

    def skip_reason(self, case: Case) -> str | None:
        """Why the variant makes no sense for this case; None where it does."""
        if self.needs is not None and not NEEDS[self.needs][0](case):
            return NEEDS[self.needs][1]
        return None

    def refusal(self, case: Case) -> Refusal | None:
        """The error that is the right answer; None where a value is."""
        return next((refusal for tag, refusal in case.refused.items() if tag in self.tags), None)


class Group(list[Variant]):
    """Variants under one headline, which `covers` sums up for the compact table."""

    def __init__(self, headline: str, covers: str) -> None:
        super().__init__()
        self.headline = headline
        self.covers = covers

    def variant(
        self, name: str, *arguments: Any, needs: str | None = None, tags: Iterable[str] = (), slow: bool = False
    ) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Add a function `(case, *arguments)` as a row. The name of the row is a tag too."""

        def add(function: Callable[..., None]) -> Callable[..., None]:
            self.append(Variant(name, function, arguments, needs, frozenset({name, *tags}), slow))
            return function

        return add


@functools.cache
def missing_compiler() -> str | None:
    """What inductor lacks on this machine to build its kernels; None where nothing is missing."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except (InvalidCxxCompiler, RuntimeError):
        return "inductor needs a C++ compiler (Debian: apt install g++)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "inductor needs Python's headers (Debian: apt install python3-dev)"
    if any(" " in path for path in (torch.__file__, sysconfig.get_path("include"))):
        return "inductor does not build where the path to PyTorch or Python has a space in it"
    return None


# What variants share ---------------------------------------------------------------------------------------------


def caller(case: Case, options: Any = None) -> Callable[..., Tensors]:
    """The case as a function from tensors to a tuple of tensors."""
    function, options = case.function, dict(case.options if options is None else options)

    def call(*inputs: Tensor) -> Tensors:
        result = function(*inputs, **options)
        return result if isinstance(result, tuple) else (result,)

    return call


def loss_of(case: Case, weights: Sequence[Tensor]) -> Callable[..., tuple[Tensor, Tensors]]:
    """The weighted sum of y + y^2 / 2 over all outputs, together with the outputs."""
    call = caller(case)

    def loss(*inputs: Tensor) -> tuple[Tensor, Tensors]:
        values = call(*inputs)
        total = values[0].new_zeros(())
        for weight, value in zip(weights, values, strict=True):
            total = total + (weight * (value + value * value / 2)).sum()
        return total, values

    return loss


def leaves(case: Case, dtype: torch.dtype = torch.float64, number: int = 0, grow: int = 0) -> Tensors:
    """Inputs that require grad."""
    return tuple(x.requires_grad_() for x in inputs_of(case, number, dtype, grow))


def cast(tensors: Sequence[Tensor], dtype: torch.dtype) -> Tensors:
    return tuple(t.to(dtype) for t in tensors)


def positions(case: Case) -> tuple[int, ...]:
    """Every input, for the `argnums` of torch.func."""
    return tuple(range(len(case.shapes)))


def assert_same(
    actual: Any, expected: Any, dtype: torch.dtype | None = None, precision: torch.dtype | None = None
) -> None:
    """Tensors, or nested tuples of them, equal up to the rounding of `precision`, which is their dtype by default."""
    if not isinstance(expected, Tensor):
        assert isinstance(actual, (tuple, list))
        for a, e in zip(actual, expected, strict=True):
            assert_same(a, e, dtype, precision)
        return
    assert isinstance(actual, Tensor), f"expected a tensor, got {actual!r}"
    assert actual.dtype == (dtype or expected.dtype)
    eps = torch.finfo(precision or actual.dtype).eps
    tolerance = (4 if eps > 1e-4 else 64) * eps  # a long sum of doubles loses more bits than one rounding to half
    torch.testing.assert_close(actual.detach().to(expected.dtype), expected.detach(), rtol=tolerance, atol=tolerance)


def assert_backward(
    case: Case,
    inputs: Tensors,
    *,
    call: Callable[..., Tensors] | None = None,
    options: Any = None,
    precision: torch.dtype | None = None,
) -> None:
    """The values of a call and its gradient by plain backward."""
    expected = Expected(case, inputs, options)
    values = (call or caller(case, options))(*inputs)
    assert_same(values, expected.values, inputs[0].dtype, precision)
    weights = cast(expected.weights(), inputs[0].dtype)
    gradients = torch.autograd.grad(values, inputs, weights)
    assert_same(gradients, expected.gradient(weights), inputs[0].dtype, precision)
