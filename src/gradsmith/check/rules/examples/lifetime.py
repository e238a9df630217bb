"""Examples of the rules in `lifetime`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    401: put_right(
        """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.x
        return 2 * x * grad_output

subject = Square.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("ctx.x = x", "ctx.save_for_backward(x)"),
        ("x = ctx.x", "(x,) = ctx.saved_tensors"),
    ),
    402: put_right(
        """
import torch

class ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mask = x > 0
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        mask = ctx.mask
        return grad_output * mask

subject = ReLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("ctx.mask = x > 0", "ctx.save_for_backward(x > 0)"),
        ("mask = ctx.mask", "(mask,) = ctx.saved_tensors"),
    ),
    403: put_right(
        """
import torch

class Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.tanh(x)
        Tanh.last_output = y  # for debugging
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * (1 - y * y)

subject = Tanh.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("        Tanh.last_output = y  # for debugging\n", ""),
    ),
    404: put_right(
        """
import torch

class Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(x)
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, grad_output):
        x, y = ctx.saved_tensors
        return grad_output * y * (1 - y)

subject = Sigmoid.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("ctx.save_for_backward(x, y)", "ctx.save_for_backward(y)"),
        ("x, y = ctx.saved_tensors", "(y,) = ctx.saved_tensors"),
    ),
    405: put_right(
        """
import torch

class Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key):
        ctx.save_for_backward(query, key)
        return torch.dot(query, key)

    @staticmethod
    def backward(ctx, grad_output):
        query = ctx.saved_tensors[0]
        key = ctx.saved_tensors[1]
        return grad_output * key, grad_output * query

subject = Dot.apply
inputs = (
    torch.tensor([0.5, -1.2, 2.0], requires_grad=True),
    torch.tensor([-0.3, 1.1, -0.7], requires_grad=True),
)
""",
        (
            "query = ctx.saved_tensors[0]\n        key = ctx.saved_tensors[1]",
            "query, key = ctx.saved_tensors",
        ),
    ),
    406: put_right(
        """
import random
import torch

class DropRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        # checkpoint restores the random numbers of torch, not those of Python
        mask = torch.tensor([[random.random() < 0.5] for _ in x])
        ctx.save_for_backward(mask)
        return x * mask

    @staticmethod
    def backward(ctx, grad_output):
        (mask,) = ctx.saved_tensors
        return grad_output * mask

subject = DropRows.apply
inputs = (torch.linspace(-2, 3, 24).reshape(8, 3).requires_grad_(),)
""",
        ("import random\n", ""),
        ("        # checkpoint restores the random numbers of torch, not those of Python\n", ""),
        ("torch.tensor([[random.random() < 0.5] for _ in x])", "torch.rand(x.shape[0], 1) < 0.5"),
    ),
    407: put_right(
        """
import torch

class ReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.place = x.data_ptr()
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        if x.data_ptr() != ctx.place:
            raise RuntimeError("the input is not where it was")
        return grad_output * (x > 0)

subject = ReLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("        ctx.place = x.data_ptr()\n", ""),
        (
            '        if x.data_ptr() != ctx.place:\n            raise RuntimeError("the input is not where it was")\n',
            "",
        ),
    ),
}
