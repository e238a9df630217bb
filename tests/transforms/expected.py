"""What a case must give, worked out from its two formulas in double precision and plain eager torch.

A declared gradient is a linear map from incoming gradients to gradients. Its matrix, found by feeding it one unit
vector after the other, is the Jacobian that every transform must agree with, forward mode too. The second derivative
takes the derivative of the formula itself, and the Jacobian again for the part of the incoming gradient that moves
with the input.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd.functional import jacobian

from tests.transforms.cases import Case

Tensors = tuple[Tensor, ...]


def sample(shape: Sequence[int], number: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Values between -2 and 2, different ones for each number."""
    generator = torch.Generator().manual_seed(number)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    parts = torch.rand((*shape, 2), generator=generator, dtype=torch.float64) * 4 - 2
    return (torch.view_as_complex(parts) if dtype.is_complex else parts[..., 0]).to(wide).to(dtype)


def inputs_of(case: Case, number: int = 0, dtype: torch.dtype = torch.float64, grow: int = 0) -> Tensors:
    """Leaf inputs; `grow` lengthens every dimension."""
    shapes = [tuple(n + grow for n in shape) for shape in case.shapes]
    return tuple(sample(s, 10 * number + i, dtype) for i, s in enumerate(shapes))


def as_tuple(value: Tensor | Tensors) -> Tensors:
    return value if isinstance(value, tuple) else (value,)


def wide(tensors: Sequence[Tensor]) -> Tensors:
    return tuple(t.detach().to(torch.complex128 if t.is_complex() else torch.float64, copy=True) for t in tensors)


class Expected:
    """The values and derivatives of a case at some inputs."""

    def __init__(self, case: Case, inputs: Sequence[Tensor], options: dict[str, float] | None = None) -> None:
        self.case = case
        self.inputs = wide(inputs)
        self.options = dict(case.options if options is None else options)
        self.values = as_tuple(case.forward(*self.inputs, **self.options))

    def weights(self) -> Tensors:
        """One weight for each element of each output: the incoming gradient of most variants."""
        return tuple(sample(v.shape, 1000 + i, v.dtype) for i, v in enumerate(self.values))

    def gradient(self, incoming: Sequence[Tensor]) -> Tensors:
        return as_tuple(self.case.gradient(*self.inputs, *wide(incoming), **self.options))

    def loss_gradient(self) -> Tensors:
        """The gradient of the weighted sum of y + y^2 / 2, whose incoming gradient moves with the input."""
        return self.gradient([w * (1 + v) for w, v in zip(self.weights(), self.values, strict=True)])

    def jacobian(self) -> list[list[Tensor]]:
        """For each output, the derivative by each input, of shape (*output, *input)."""
        blocks = []
        for k, value in enumerate(self.values):
            rows = [self.gradient(unit) for unit in self._units(k)]
            columns = zip(*rows, strict=True) if rows else ([] for _ in self.inputs)
            blocks.append([_stacked(c, (*value.shape, *x.shape)) for c, x in zip(columns, self.inputs, strict=True)])
        return blocks

    def tangents(self, tangents: Sequence[Tensor]) -> Tensors:
        """Forward mode: the Jacobian times the tangents (for complex numbers it is the adjoint of the gradient)."""
        return tuple(
            sum(_dot(block.conj(), t) for block, t in zip(row, wide(tangents), strict=True)) for row in self.jacobian()
        )

    def gradient_derivative(self, incoming: Sequence[Tensor]) -> list[list[Tensor]]:
        """For each gradient, its derivative by each input, the incoming gradient held still."""
        incoming, count = wide(incoming), len(self.inputs)

        def gradient(*inputs: Tensor) -> Tensors:
            return as_tuple(self.case.gradient(*inputs, *incoming, **self.options))

        blocks = as_tuple(jacobian(gradient, self.inputs))
        return [list(as_tuple(row)) for row in blocks] if count else []

    def hessian(self) -> list[list[Tensor]]:
        """The derivative of `loss_gradient` by each input; not symmetric where the declared gradient is none."""
        weights, count = self.weights(), len(self.inputs)
        incoming = tuple(w * (1 + v) for w, v in zip(weights, self.values, strict=True))
        still = self.gradient_derivative(incoming)
        by_incoming = jacobian(lambda *g: self.gradient_of(g), incoming)
        declared = self.jacobian()
        for i in range(count):
            for j in range(count):
                for k, w in enumerate(weights):
                    moved = w.reshape(*w.shape, *[1] * self.inputs[j].dim()) * declared[k][j]
                    still[i][j] = still[i][j] + torch.tensordot(by_incoming[i][k], moved, w.dim())
        return still

    def gradient_of(self, incoming: Sequence[Tensor]) -> Tensors:
        return as_tuple(self.case.gradient(*self.inputs, *incoming, **self.options))

    def penalty_gradient(self, incoming: Sequence[Tensor]) -> Tensors:
        """The gradient of the sum of squares of the gradient, the incoming gradient held still."""
        gradients, derivative = self.gradient(incoming), self.gradient_derivative(incoming)
        return tuple(
            sum(2 * torch.tensordot(g, derivative[i][j], g.dim()) for i, g in enumerate(gradients))
            for j in range(len(self.inputs))
        )

    def _units(self, output: int) -> list[list[Tensor]]:
        units = []
        for position in range(self.values[output].numel()):
            unit = [torch.zeros_like(v) for v in self.values]
            unit[output].view(-1)[position] = 1
            units.append(unit)
        return units


def _stacked(rows: Sequence[Tensor], shape: tuple[int, ...]) -> Tensor:
    return torch.stack(list(rows)).reshape(shape) if rows else torch.zeros(shape, dtype=torch.float64)


def _dot(block: Tensor, tangent: Tensor) -> Tensor:
    return torch.tensordot(block, tangent, tangent.dim())
