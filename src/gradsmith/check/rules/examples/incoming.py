"""Examples of the rules in `incoming`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    201: put_right(
        """
import torch

class SquaredError(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction, target):
        ctx.save_for_backward(prediction, target)
        return (prediction - target).square().sum()

    @staticmethod
    def backward(ctx, grad_output):
        prediction, target = ctx.saved_tensors
        return 2 * (prediction - target), None

subject = SquaredError.apply
inputs = (torch.tensor([0.5, -1.2, 2.0], requires_grad=True), torch.tensor([0.1, -1.0, 1.5]))
""",
        ("return 2 * (", "return 2 * grad_output * ("),
    ),
    202: put_right(
        """
import torch

class RowError(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction):
        ctx.save_for_backward(prediction)
        return 0.5 * prediction.square().sum(dim=-1)  # one loss for each row

    @staticmethod
    def backward(ctx, grad_output):
        (prediction,) = ctx.saved_tensors
        return prediction * grad_output.mean()

subject = RowError.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("grad_output.mean()", "grad_output.unsqueeze(-1)"),
    ),
    203: put_right(
        """
import torch

class ActivityPenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output + ctx.weight * x, None

subject = ActivityPenalty.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True), 0.1)
""",
        ("return x.clone()", "return x.clone(), 0.5 * weight * x.square().sum()  # to be added to the loss"),
        ("(ctx, grad_output)", "(ctx, grad_output, grad_penalty)"),
        ("grad_output + ctx.weight * x", "grad_output + grad_penalty * ctx.weight * x"),
    ),
    204: put_right(
        """
import torch

def halve(source, result):
    \"\"\"Stands for a kernel: it walks through both memories from front to back.\"\"\"
    flat = (source.numel(),), (1,)
    result.as_strided(*flat).copy_(source.as_strided(*flat) / 2)

class Halve(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x / 2

    @staticmethod
    def backward(ctx, grad_output):
        grad_input = torch.empty_like(grad_output)
        halve(grad_output.contiguous(), grad_input)
        return grad_input

subject = Halve.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        (
            "torch.empty_like(grad_output)",
            "torch.empty_like(grad_output, memory_format=torch.contiguous_format)",
        ),
    ),
    205: put_right(
        """
import torch

class ReverseElements(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.reshape(-1).flip(0).reshape(x.shape)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.view(-1).flip(0).view(grad_output.shape)

subject = ReverseElements.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("grad_output.view(-1)", "grad_output.reshape(-1)"),
    ),
    206: put_right(
        """
import torch

class RowPower(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.square().sum(dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        rows = x.view(-1, x.shape[-1])
        return (2 * grad_output.reshape(-1, 1) * rows).view(x.shape)

subject = RowPower.apply
inputs = (torch.linspace(-2, 3, 24).reshape(4, 2, 3).requires_grad_(),)
""",
        ("x.view(-1, x.shape[-1])", "x.reshape(-1, x.shape[-1])"),
    ),
    207: put_right(
        """
import torch

class ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad_output[x <= 0] = 0
        return grad_output

subject = ReLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("grad_output[x <= 0] = 0\n        return grad_output", "return grad_output.masked_fill(x <= 0, 0)"),
    ),
    208: put_right(
        """
import torch

class LogSumExp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        largest = x.max()
        shifted = x.sub_(largest)
        ctx.save_for_backward(x)
        return shifted.exp().sum().log() + largest

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * torch.softmax(x.reshape(-1), dim=0).reshape(x.shape)

subject = LogSumExp.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("x.sub_(largest)", "x - largest"),
    ),
    209: put_right(
        """
import torch

class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return y.mul_(grad_output)

subject = Exp.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("y.mul_(grad_output)", "y * grad_output"),
    ),
}
