"""Split a tensor by sign into two scaled parts, and put their gradients together again."""

from __future__ import annotations

import torch

from gradsmith.declare import custom_gradient
from gradsmith.ops._checks import check_number, check_real
from gradsmith.ops._pieces import PIECE, in_pieces, pieces

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
    # What belongs to the other part is at or below 0 after the multiplication; there threshold gives +0.0.
    factors = abs(positive_scale), -abs(negative_scale)
    if not in_pieces(x):
        parts = [torch.threshold(x * factor, 0.0, 0.0) for factor in factors]
    else:
        parts = [torch.empty_like(x), torch.empty_like(x)]
        for x_piece, *part_pieces in pieces(x, *parts):
            for piece, factor in zip(part_pieces, factors, strict=True):
                torch.threshold_(torch.mul(x_piece, factor, out=piece), 0.0, 0.0)
    return _signed(parts[0], positive_scale), _signed(parts[1], -negative_scale)


def _signed(part: torch.Tensor, sign: float) -> torch.Tensor:
    """The part itself, minus it, or +0.0, by the sign of the scale it was taken with."""
    if sign == 0:
        return torch.zeros_like(part)  # 0 * inf was nan
    return part if sign > 0 else 0.0 - part


@split_and_scale.backward
def _(
    grads: tuple[torch.Tensor | None, torch.Tensor | None],
    x: torch.Tensor,
    positive_scale: float,
    negative_scale: float,
) -> torch.Tensor:
    # An output that was not used, or is always zero, contributes nothing.
    of_positive = grads[0] if positive_scale != 0 else None
    of_negative = grads[1] if negative_scale != 0 else None
    # (0.0 + -0.0 is 0.0)
    if of_positive is None:
        return (
            torch.zeros_like(x) if of_negative is None else torch.where(x < 0, of_negative * negative_scale, 0.0) + 0.0
        )
    if of_negative is None:
        return torch.where(x > 0, of_positive * positive_scale, 0.0) + 0.0
    if in_pieces(x, of_positive, of_negative):
        return _combined_in_pieces(x, of_positive, of_negative, positive_scale, negative_scale)
    return torch.where(x > 0, of_positive * positive_scale, 0.0) + torch.where(x < 0, of_negative * negative_scale, 0.0)


def _combined_in_pieces(
    x: torch.Tensor, of_positive: torch.Tensor, of_negative: torch.Tensor, positive_scale: float, negative_scale: float
) -> torch.Tensor:
    """The same sum, piece by piece in two small buffers: only the result is written to memory."""
    combined = torch.empty_like(x)
    sign, negative = (x.new_empty(min(x.numel(), PIECE)) for _ in range(2))
    for x_piece, positive_piece, negative_piece, piece in pieces(x, of_positive, of_negative, combined):
        signs, negatives = sign[: len(piece)], negative[: len(piece)]
        torch.sign(x_piece, out=signs)
        _select(positive_piece, signs, piece).mul_(positive_scale)
        if positive_scale <= 0:
            piece.add_(0.0)  # -0.0 becomes +0.0
        _select(negative_piece, signs.neg_(), negatives)
        piece.add_(negatives, alpha=negative_scale)
    return combined


def _select(grad: torch.Tensor, sign: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    """`grad` where the sign is positive, else +0.0."""
    selected: torch.Tensor = torch.ops.aten.threshold_backward(grad, sign, 0, grad_input=out)
    return selected
