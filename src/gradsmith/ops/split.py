"""Split a tensor by sign into two scaled parts, and put their gradients together again."""

from __future__ import annotations

import torch

from gradsmith.declare import custom_gradient
from gradsmith.ops._checks import check_number, check_real
from gradsmith.ops._pieces import in_pieces, pieces

__all__ = ["split_and_scale"]


@custom_gradient
def split_and_scale(
    x: torch.Tensor, positive_scale: float = 2.0, negative_scale: float = -1.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """The positive and the negative part of `x`, each scaled; one backward combines both gradients.

    `positive = max(x, 0) * positive_scale` and `negative = min(x, 0) * negative_scale`. The gradient of `x` is
    `positive_scale * grad_positive` where x > 0, `negative_scale * grad_negative` where x < 0, and 0 at 0, where
    both one-sided slopes end. An output that was not used contributes nothing. Zeros come out as +0.0. A nan in `x`
    shows in both outputs. Only a reference to `x` is kept for backward.

    Args:
        x: real floating-point tensor of any shape.
        positive_scale: a finite number: factor of the positive part and of its gradient.
        negative_scale: a finite number: factor of the negative part and of its gradient.

    Returns:
        `(positive, negative)`, two tensors of the shape, dtype and device of `x`.

    Raises:
        TypeError: `x` is no real floating-point tensor; a scale is no number.
        ValueError: a scale is nan or infinite.

    Example:
        >>> import torch, gradsmith as gs
        >>> x = torch.tensor([-3.0, -1.0, 0.0, 2.0, 4.0], requires_grad=True)
        >>> positive, negative = gs.split_and_scale(x)
        >>> positive.tolist(), negative.tolist()
        ([0.0, 0.0, 0.0, 4.0, 8.0], [3.0, 1.0, 0.0, 0.0, 0.0])
        >>> (positive.sum() + negative.sum()).backward()
        >>> x.grad.tolist()
        [-1.0, -1.0, 0.0, 2.0, 2.0]
    """
    check_real("split_and_scale", "x", x)
    check_number("split_and_scale", "positive_scale", positive_scale)
    check_number("split_and_scale", "negative_scale", negative_scale)
    return _part(x, positive_scale, 1), _part(x, negative_scale, -1)


@split_and_scale.backward
def _(
    grads: tuple[torch.Tensor | None, torch.Tensor | None],
    x: torch.Tensor,
    positive_scale: float,
    negative_scale: float,
) -> torch.Tensor:
    of_positive, of_negative = grads
    if of_positive is None:
        return _where(x < 0, of_negative, negative_scale)
    if of_negative is None:
        return _where(x > 0, of_positive, positive_scale)
    if in_pieces(x, of_positive, of_negative):
        return _combine_pieces(x, of_positive, of_negative, positive_scale, negative_scale)
    return _where(x > 0, of_positive, positive_scale) + _where(x < 0, of_negative, negative_scale)


def _where(mask: torch.Tensor, grad: torch.Tensor | None, scale: float) -> torch.Tensor:
    """`scale * grad` where the mask holds, else +0.0."""
    assert grad is not None  # the engine runs no backward without a gradient
    return torch.where(mask, grad * scale, 0.0)


def _part(x: torch.Tensor, scale: float, sign: int) -> torch.Tensor:
    """`scale * max(x, 0)` for sign 1, `scale * min(x, 0)` for sign -1, with +0.0 for every zero."""
    if scale == 0:
        return torch.zeros_like(x)  # 0 * inf would be nan
    # What belongs to the other part is at or below 0 after the multiplication; there threshold gives +0.0.
    factor = abs(scale) * sign
    if in_pieces(x):
        part = torch.empty_like(x)
        for x_piece, piece in pieces(x, part):
            torch.threshold_(torch.mul(x_piece, factor, out=piece), 0.0, 0.0)
    else:
        part = torch.threshold(x * factor, 0.0, 0.0)
    return part if scale * sign > 0 else 0.0 - part


def _combine_pieces(
    x: torch.Tensor,
    of_positive: torch.Tensor,
    of_negative: torch.Tensor,
    positive_scale: float,
    negative_scale: float,
) -> torch.Tensor:
    """The sum of both `_where`, piece by piece: only the result is written to memory."""
    combined = torch.empty_like(x)
    for x_piece, positive, negative, piece in pieces(x, of_positive, of_negative, combined):
        sign = torch.sign(x_piece)
        torch.ops.aten.threshold_backward(positive * positive_scale, sign, 0, grad_input=piece)
        piece.add_(torch.ops.aten.threshold_backward(negative * negative_scale, sign.neg_(), 0))
    return combined
