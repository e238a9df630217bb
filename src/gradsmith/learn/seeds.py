"""The two seed exercises, written by hand in the plain style of a first ``torch.autograd.Function``.

Both use nothing but PyTorch. `gradsmith.split_and_scale` and `gradsmith.scale_gradient` are the same two
functions as library operations, which also hold under `torch.func` and `torch.compile`.
"""

from typing import Any

import torch
from torch import Tensor

__all__ = ["GradientScale", "SplitAndScale"]


class SplitAndScale(torch.autograd.Function):
    """Splits x by sign into ``positive = max(x, 0) * 2`` and ``negative = min(x, 0) * -1``.

    ``SplitAndScale.apply(x)`` takes a floating-point tensor of any shape and returns two tensors of its shape
    and dtype. The gradient of x combines what comes back from both: ``2 * g_positive`` where x > 0,
    ``-g_negative`` where x < 0, and 0 at x = 0.

    Example:
        >>> import torch
        >>> x = torch.tensor([-3.0, -1.0, 0.0, 2.0, 4.0], requires_grad=True)
        >>> positive, negative = SplitAndScale.apply(x)
        >>> positive.tolist()
        [0.0, 0.0, 0.0, 4.0, 8.0]
        >>> negative.tolist()
        [3.0, 1.0, 0.0, 0.0, 0.0]
        >>> (positive.sum() + negative.sum()).backward()
        >>> x.grad.tolist()
        [-1.0, -1.0, 0.0, 2.0, 2.0]
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute both outputs and keep x, whose sign decides the gradient."""
        ctx.save_for_backward(x)
        # Zeros are picked, not computed: min(x, 0) * -1 would turn 0 into -0.0.
        # Asking "<= 0" rather than "> 0" lets a NaN in x come out as NaN instead of 0.
        positive = torch.where(x <= 0, 0.0, x * 2)
        negative = torch.where(x >= 0, 0.0, x * -1)
        return positive, negative

    @staticmethod
    def backward(ctx: Any, grad_positive: Tensor, grad_negative: Tensor) -> Tensor:
        """Send each incoming gradient to the side of zero that its output came from."""
        (x,) = ctx.saved_tensors
        # An output that was not used sends zeros. Subtracting them gives 0.0, negating them would give -0.0.
        from_positive = torch.where(x > 0, grad_positive * 2, 0.0)
        from_negative = torch.where(x < 0, grad_negative, 0.0)
        return from_positive - from_negative


class GradientScale(torch.autograd.Function):
    """Returns x unchanged and multiplies the gradient by a plain number on its way back.

    ``GradientScale.apply(x, scale)`` takes a floating-point tensor of any shape and a Python number. A
    positive scale balances the tasks of a shared network; a negative one is the gradient reversal layer of
    domain-adversarial training (Ganin and Lempitsky, 2015).

    Example:
        >>> import torch
        >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
        >>> y = GradientScale.apply(x, 0.5)
        >>> y.tolist()
        [1.0, 2.0, 3.0, 4.0]
        >>> y.sum().backward()
        >>> x.grad.tolist()
        [0.5, 0.5, 0.5, 0.5]
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        """Pass x on and keep the scale, which is no tensor and so has no place in ``save_for_backward``."""
        ctx.scale = scale
        # The same memory, yet a tensor of its own: were x itself returned, the output could not be
        # changed in place later.
        return x.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        """Scale the incoming gradient; the plain number has no gradient of its own."""
        return grad * ctx.scale, None
