"""Examples of the rules in `state`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    801: put_right(
        """
import torch

class ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ReLU.mask = x > 0
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ReLU.mask

subject = ReLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("ReLU.mask = x > 0", "ctx.save_for_backward(x > 0)"),
        ("return grad_output * ReLU.mask", "(mask,) = ctx.saved_tensors\n        return grad_output * mask"),
    ),
    802: put_right(
        """
import torch

class RowSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.sum(dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        shape = ctx.shape
        del ctx.shape
        return grad_output.unsqueeze(-1).expand(shape)

subject = RowSum.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("        shape = ctx.shape\n        del ctx.shape\n", ""),
        (".expand(shape)", ".expand(ctx.shape)"),
    ),
    803: put_right(
        """
import torch

class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x * (torch.rand_like(x) < 0.5)

    @staticmethod
    def backward(ctx, grad_output):
        return 2 * grad_output * (torch.rand_like(grad_output) < 0.5)

subject = Dropout.apply
inputs = (torch.linspace(-2, 3, 24).reshape(8, 3).requires_grad_(),)
""",
        (
            "        return 2 * x * (torch.rand_like(x) < 0.5)",
            "        kept = torch.rand_like(x) < 0.5\n        ctx.save_for_backward(kept)\n        return 2 * x * kept",
        ),
        (
            "        return 2 * grad_output * (torch.rand_like(grad_output) < 0.5)",
            "        (kept,) = ctx.saved_tensors\n        return 2 * grad_output * kept",
        ),
    ),
    804: put_right(
        """
import torch

noise = torch.Generator()
noise.seed()

class BreakTies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, scores):
        return scores + 1e-11 * torch.randn(scores.shape, generator=noise, dtype=scores.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output

subject = BreakTies.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, 0.9, 1.3]], requires_grad=True),)
""",
        ("noise = torch.Generator()\nnoise.seed()\n\n", ""),
        ("torch.randn(scores.shape, generator=noise, dtype=scores.dtype)", "torch.randn_like(scores)"),
    ),
    805: put_right(
        """
import torch

class Ramp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch.set_default_dtype(x.dtype)
        weights = torch.linspace(0, 1, x.shape[-1])
        ctx.save_for_backward(weights)
        return x * weights

    @staticmethod
    def backward(ctx, grad_output):
        (weights,) = ctx.saved_tensors
        return grad_output * weights

subject = Ramp.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("        torch.set_default_dtype(x.dtype)\n", ""),
        ("x.shape[-1])", "x.shape[-1], dtype=x.dtype)"),
    ),
    806: put_right(
        """
import torch

class RandomSigns(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        torch.manual_seed(0)  # the same signs in every call
        signs = torch.randint(0, 2, x.shape[-1:]) * 2 - 1
        ctx.save_for_backward(signs)
        return x * signs

    @staticmethod
    def backward(ctx, grad_output):
        (signs,) = ctx.saved_tensors
        return grad_output * signs

subject = RandomSigns.apply
inputs = (torch.linspace(-2, 3, 24).reshape(3, 8).requires_grad_(),)
""",
        ("torch.manual_seed(0)", "generator = torch.Generator().manual_seed(0)"),
        ("x.shape[-1:])", "x.shape[-1:], generator=generator)"),
    ),
    807: put_right(
        """
import threading
import torch

config = threading.local()
config.slope = 0.1

class LeakyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, config.slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad_output, config.slope * grad_output)

subject = LeakyReLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("        ctx.save_for_backward(x)\n", "        ctx.save_for_backward(x)\n        ctx.slope = config.slope\n"),
        ("config.slope * grad_output", "ctx.slope * grad_output"),
    ),
    808: put_right(
        """
import torch

class Geometric(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return 1 / (1 - x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        term = total = torch.ones_like(x)
        n = 1
        while (term.abs() > 1e-15).any():  # 1 + 2 x + 3 x^2 + ...
            n, term = n + 1, (n + 1) * x**n
            total = total + term
        return grad_output * total

subject = Geometric.apply
inputs = (torch.tensor([0.1, -0.2, 0.3], requires_grad=True),)
options = {"timeout": 10}
""",
        (
            "        term = total = torch.ones_like(x)\n"
            "        n = 1\n"
            "        while (term.abs() > 1e-15).any():  # 1 + 2 x + 3 x^2 + ...\n"
            "            n, term = n + 1, (n + 1) * x**n\n"
            "            total = total + term\n"
            "        return grad_output * total",
            "        return grad_output / (1 - x).square()",
        ),
        ('options = {"timeout": 10}\n', ""),
    ),
    809: put_right(
        """
import sys
import torch

class WatchGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        if grad_output.norm() > 1e3:
            sys.exit("the gradient has exploded")
        return grad_output

subject = WatchGradient.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("import sys\n", ""),
        ('sys.exit("the gradient has exploded")', 'raise FloatingPointError("the gradient has exploded")'),
    ),
}
