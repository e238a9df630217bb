"""Examples of the first rules in `structure`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    301: put_right(
        """
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output * ctx.factor

subject = Scale.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True), 0.5)
""",
        ("return grad_output * ctx.factor", "return grad_output * ctx.factor, None"),
    ),
    302: put_right(
        """
import torch

class Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.mv(weight.t(), x)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        return torch.mv(weight.t(), grad_output), torch.outer(grad_output, x)

subject = Project.apply
inputs = (
    torch.tensor([0.5, -1.2, 2.0], requires_grad=True),
    torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),
)
""",
        ("return torch.mv(weight.t(), x)", "return torch.mv(weight, x)"),
    ),
    303: put_right(
        """
import torch

class Temperature(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, temperature):
        ctx.save_for_backward(temperature)
        return logits / temperature

    @staticmethod
    def backward(ctx, grad_output):
        (temperature,) = ctx.saved_tensors
        return grad_output / temperature, None

subject = Temperature.apply
inputs = (
    torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),
    torch.tensor(1.7, requires_grad=True),
)
""",
        ("ctx.save_for_backward(temperature)", "ctx.save_for_backward(logits, temperature)"),
        ("(temperature,) = ctx.saved_tensors", "logits, temperature = ctx.saved_tensors"),
        ("/ temperature, None", "/ temperature, -(grad_output * logits).sum() / temperature**2"),
    ),
    304: put_right(
        """
import torch

class Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.mv(weight, x)

    @staticmethod
    def backward(ctx, grad_output):
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = None
        if ctx.needs_input_grad[0]:
            grad_x = torch.mv(weight.t(), grad_output)
            grad_weight = torch.outer(grad_output, x)
        return grad_x, grad_weight

subject = Project.apply
inputs = (
    torch.tensor([0.5, -1.2, 2.0], requires_grad=True),
    torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),
)
""",
        (
            "            grad_weight = torch.outer(grad_output, x)",
            "        if ctx.needs_input_grad[1]:\n            grad_weight = torch.outer(grad_output, x)",
        ),
    ),
    305: put_right(
        """
import torch

class SinCos(torch.autograd.Function):
    @staticmethod
    def forward(ctx, angle):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(angle)
        return angle.sin(), angle.cos()

    @staticmethod
    def backward(ctx, grad_sin, grad_cos):
        (angle,) = ctx.saved_tensors
        return grad_sin * angle.cos() - grad_cos * angle.sin()

subject = SinCos.apply
inputs = (torch.tensor([0.5, -1.2, 2.0], requires_grad=True),)
""",
        ("        ctx.set_materialize_grads(False)\n", ""),
    ),
    306: put_right(
        """
import torch

class Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx, first, others):
        ctx.sizes = [len(part) for part in (first, *others)]
        return torch.cat([first, *others])

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.split(ctx.sizes)[0], None

subject = Join.apply
inputs = (
    torch.tensor([0.5, -1.2, 2.0], requires_grad=True),
    [torch.tensor([0.3, 1.1], requires_grad=True), torch.tensor([-0.7], requires_grad=True)],
)
""",
        ("(ctx, first, others)", "(ctx, first, *others)"),
        ("return grad_output.split(ctx.sizes)[0], None", "return grad_output.split(ctx.sizes)"),
        ("    [torch", "    torch"),
        ("True)],", "True),"),
    ),
    307: put_right(
        """
import torch

weight = torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True)

class Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.mv(weight, x)

    @staticmethod
    def backward(ctx, grad_output):
        return torch.mv(weight.t(), grad_output)

subject = Project.apply
inputs = (torch.tensor([0.5, -1.2, 2.0], requires_grad=True),)
""",
        (
            "(ctx, x):\n",
            "(ctx, x, weight):\n        ctx.save_for_backward(x, weight)\n",
        ),
        (
            "        return torch.mv(weight.t(), grad_output)",
            "        x, weight = ctx.saved_tensors\n"
            "        return torch.mv(weight.t(), grad_output), torch.outer(grad_output, x)",
        ),
        ("requires_grad=True),)", "requires_grad=True), weight)"),
    ),
}
