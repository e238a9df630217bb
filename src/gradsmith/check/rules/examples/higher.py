"""Examples of the rules in `higher`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    501: put_right(
        """
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            slope = 3 * x.square()
            return grad_output * slope

subject = Cube.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("        with torch.no_grad():\n", ""),
        ("            slope =", "        slope ="),
        ("            return grad", "        return grad"),
    ),
    502: put_right(
        """
import torch
from torch.autograd.function import once_differentiable

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x.square()

subject = Cube.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        (
            "from torch.autograd.function import once_differentiable\n",
            "\nclass CubeBackward(torch.autograd.Function):\n"
            "    @staticmethod\n"
            "    def forward(ctx, x, grad_output):\n"
            "        return grad_output * 3 * x.square()\n\n"
            "    @staticmethod\n"
            "    def backward(ctx, grad):\n"
            '        raise RuntimeError("Cube has no second derivative")\n',
        ),
        ("    @once_differentiable\n", ""),
        (
            "(x,) = ctx.saved_tensors\n        return grad_output * 3 * x.square()",
            "(x,) = ctx.saved_tensors\n        return CubeBackward.apply(x, grad_output)",
        ),
    ),
    503: put_right(
        """
import torch

class SiLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, grad_output):
        x, s = ctx.saved_tensors
        return grad_output * (s + x * s * (1 - s))

subject = SiLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("ctx.save_for_backward(x, s)", "ctx.save_for_backward(x)"),
        ("x, s = ctx.saved_tensors", "(x,) = ctx.saved_tensors\n        s = torch.sigmoid(x)"),
    ),
    504: put_right(
        """
import torch

class Cos(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x.cos()

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return -grad_output * x.sin()

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        return tangent * x.sin()

subject = Cos.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("return tangent", "return -tangent"),
    ),
}
