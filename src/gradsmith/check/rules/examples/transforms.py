"""Examples of the rules in `transforms`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["EXAMPLES"]

EXAMPLES: dict[int, tuple[str, str]] = {
    601: put_right(
        """
import torch

class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (y,) = ctx.saved_tensors
        return grad_output * y

    @staticmethod
    def vmap(info, in_dims, x):
        return Exp.apply(x), 0

subject = Exp.apply
inputs = (torch.tensor([0.5, -1.2, 2.0], requires_grad=True),)
""",
        ("return Exp.apply(x), 0", "return Exp.apply(x), in_dims[0]"),
    ),
    602: put_right(
        """
import torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(x):
        Square.trains = x.requires_grad
        return x.square()

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x if Square.trains else None)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return torch.zeros_like(grad_output) if x is None else 2 * grad_output * x

subject = Square.apply
inputs = (torch.tensor([0.5, -1.2, 2.0], requires_grad=True),)
""",
        ("        Square.trains = x.requires_grad\n", ""),
        ("x if Square.trains else None", "x"),
        ("torch.zeros_like(grad_output) if x is None else 2 * grad_output * x", "2 * grad_output * x"),
    ),
    603: put_right(
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
        if torch.compiler.is_compiling():
            return grad_output * torch.sigmoid(1.702 * x)  # nearly the same, and fused
        return grad_output * (s + x * s * (1 - s))

subject = SiLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        (
            "        if torch.compiler.is_compiling():\n"
            "            return grad_output * torch.sigmoid(1.702 * x)  # nearly the same, and fused\n",
            "",
        ),
    ),
    604: (
        """
import torch

class Round(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output

subject = Round.apply
inputs = (torch.tensor([0.6, -1.2, 2.3], requires_grad=True),)
options = {"gradient_of": lambda x: x}
""",
        """
import gradsmith as gs
import torch

@gs.gradient_of(lambda x: x)
def hard_round(x):
    return x.round()

subject = hard_round
inputs = (torch.tensor([0.6, -1.2, 2.3], requires_grad=True),)
""",
    ),
    605: put_right(
        """
import torch

class SwapHalves(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.reshape(2, -1).flip(0).reshape(x.shape)

    @staticmethod
    def backward(ctx, grad_output):
        halves = grad_output.clone().resize_(2, grad_output.numel() // 2)
        return halves.flip(0).reshape(grad_output.shape)

subject = SwapHalves.apply
inputs = (torch.tensor([-1.5, 0.2, 0.9, 2.1, -0.4, 1.3], requires_grad=True),)
""",
        ("grad_output.clone().resize_(2, grad_output.numel() // 2)", "grad_output.reshape(2, -1)"),
    ),
    606: put_right(
        """
import torch

class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        Cube.x = x
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(Cube.x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x.square()

subject = Cube.apply
inputs = (torch.tensor([0.5, -1.2, 2.0], requires_grad=True),)
""",
        ("        Cube.x = x\n", ""),
        ("ctx.save_for_backward(Cube.x)", "ctx.save_for_backward(*inputs)"),
    ),
    607: put_right(
        """
import torch

@torch.library.custom_op("gradsmith_example::row_power", mutates_args=())
def row_power(x: torch.Tensor) -> torch.Tensor:
    return x.square().sum(dim=-1)

@row_power.register_fake
def _(x):
    return x.new_empty(x.shape)

def setup_context(ctx, inputs, output):
    ctx.save_for_backward(*inputs)

def backward(ctx, grad_output):
    (x,) = ctx.saved_tensors
    return 2 * x * grad_output.unsqueeze(-1)

row_power.register_autograd(backward, setup_context=setup_context)
subject = row_power
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("x.new_empty(x.shape)", "x.new_empty(x.shape[:-1])"),
    ),
}
