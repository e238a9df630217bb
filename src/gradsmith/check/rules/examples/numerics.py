"""Examples of the rules in `numerics`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    701: put_right(
        """
import torch
import torch.nn.functional as F

class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.softplus(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * x.exp() / (1 + x.exp())

subject = Softplus.apply
inputs = (torch.tensor([[-0.5, 0.2, 0.3], [0.6, -0.4, 0.1]], requires_grad=True),)
""",
        ("x.exp() / (1 + x.exp())", "torch.sigmoid(x)"),
    ),
    702: put_right(
        """
import torch

class Standardise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x - x.mean()) / x.std(correction=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        std = (x.square().mean() - x.mean().square()).clamp(min=1e-6).sqrt()
        y = (x - x.mean()) / std
        return (grad_output - grad_output.mean() - y * (grad_output * y).mean()) / std

subject = Standardise.apply
inputs = (torch.tensor([1.0, 1.02, 1.07, 0.96, 1.04, 0.99], requires_grad=True),)
""",
        ("(x.square().mean() - x.mean().square()).clamp(min=1e-6).sqrt()", "x.std(correction=0)"),
    ),
    703: put_right(
        """
import torch
from torch.amp import custom_bwd, custom_fwd

class Project(torch.autograd.Function):
    @staticmethod
    @custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x.mm(weight)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return grad_output.mm(weight.t()), x.t().mm(grad_output)

subject = Project.apply
inputs = (
    torch.linspace(-2, 3, 6).reshape(2, 3).requires_grad_(),
    torch.linspace(2, -1, 12).reshape(3, 4).requires_grad_(),
)
""",
        ("    def backward", '    @custom_bwd(device_type="cpu")\n    def backward'),
    ),
    704: put_right(
        """
import torch
import torch.nn.functional as F

class Huber(torch.autograd.Function):
    @staticmethod
    def forward(ctx, error):
        ctx.save_for_backward(error)
        return torch.where(error.abs() < 1, 0.5 * error.square(), error.abs() - 1)

    @staticmethod
    def backward(ctx, grad_output):
        (error,) = ctx.saved_tensors
        return grad_output * error.clamp(-1, 1)

subject = Huber.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
options = {"reference": lambda error: F.huber_loss(error, torch.zeros_like(error), reduction="none")}
""",
        ("error.abs() - 1", "error.abs() - 0.5"),
    ),
}
