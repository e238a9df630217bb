"""Examples of the rules in `value`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    101: put_right(
        """
import torch

class SiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return grad_output * (s + x * s)

subject = SiLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("(s + x * s)", "(s + x * s * (1 - s))"),
    ),
    102: put_right(
        """
import torch

class MeanAndPower(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.mean(dim=-1), x.square().sum(dim=-1)

    @staticmethod
    def backward(ctx, grad_mean, grad_power):
        (x,) = ctx.saved_tensors
        return grad_mean.unsqueeze(-1).expand_as(x) / x.shape[-1]

subject = MeanAndPower.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        (
            "return grad_mean.unsqueeze(-1).expand_as(x) / x.shape[-1]",
            "from_mean = grad_mean.unsqueeze(-1).expand_as(x) / x.shape[-1]\n"
            "        return from_mean + 2 * x * grad_power.unsqueeze(-1)",
        ),
    ),
    103: put_right(
        """
import torch

class Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key):
        ctx.save_for_backward(query, key)
        return torch.dot(query, key)

    @staticmethod
    def backward(ctx, grad_output):
        query, key = ctx.saved_tensors
        return grad_output * query, grad_output * key

subject = Dot.apply
inputs = (
    torch.tensor([0.5, -1.2, 2.0], requires_grad=True),
    torch.tensor([-0.3, 1.1, -0.7], requires_grad=True),
)
""",
        ("return grad_output * query, grad_output * key", "return grad_output * key, grad_output * query"),
    ),
    104: put_right(
        """
import torch

class ComplexExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return torch.exp(z)

    @staticmethod
    def backward(ctx, grad_output):
        (z,) = ctx.saved_tensors
        return (grad_output * torch.exp(z)).conj()

subject = ComplexExp.apply
inputs = (torch.tensor([0.5 + 0.2j, -0.3 - 1.1j, 0.8j], requires_grad=True),)
""",
        ("(grad_output * torch.exp(z)).conj()", "grad_output * torch.exp(z).conj()"),
    ),
    105: put_right(
        """
import torch

class RowMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x.mean(dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.unsqueeze(-1).expand(ctx.shape) / ctx.shape[0]

subject = RowMean.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3], [0.6, -0.8, 1.7]], requires_grad=True),)
""",
        ("/ ctx.shape[0]", "/ ctx.shape[-1]"),
    ),
    106: put_right(
        """
import torch

class Softsign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x / (1 + x.abs())

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output / (1 + x).square()

subject = Softsign.apply
inputs = (torch.tensor([[1.5, 0.2, 0.9], [2.1, 0.4, 1.3]], requires_grad=True),)
""",
        ("(1 + x).square()", "(1 + x.abs()).square()"),
    ),
    107: put_right(
        """
import torch

class LeakyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.slope = slope
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.where(x > 0, grad_output, 0.01 * grad_output), None

subject = LeakyReLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True), 0.01)
""",
        ("0.01 * grad_output", "ctx.slope * grad_output"),
    ),
}
