"""Examples of the other rules in `structure`: a bad one and a good one each."""

from gradsmith.check.rules.examples import put_right

__all__ = ["MORE"]

MORE: dict[int, tuple[str, str]] = {
    308: put_right(
        """
import torch

class AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bias):
        ctx.bias_shape = bias.shape
        return x + bias

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, grad_output

subject = AddBias.apply
inputs = (
    torch.linspace(-2, 3, 12).reshape(4, 3).requires_grad_(),
    torch.tensor([0.8, 1.5, -0.4], requires_grad=True),
)
""",
        ("return grad_output, grad_output", "return grad_output, grad_output.sum_to_size(ctx.bias_shape)"),
    ),
    309: put_right(
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
        return grad_output.float() * (x > 0)

subject = ReLU.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True),)
""",
        ("grad_output.float()", "grad_output"),
    ),
    310: put_right(
        """
import torch

class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad_output):
        grad_input = torch.empty(grad_output.shape, dtype=grad_output.dtype, device="meta")
        return torch.mul(grad_output.to("meta"), ctx.factor, out=grad_input), None

subject = Scale.apply
inputs = (torch.tensor([[-1.5, 0.2, 0.9], [2.1, -0.4, 1.3]], requires_grad=True), 0.5)
""",
        (
            '        grad_input = torch.empty(grad_output.shape, dtype=grad_output.dtype, device="meta")\n'
            '        return torch.mul(grad_output.to("meta"), ctx.factor, out=grad_input), None',
            "        return grad_output * ctx.factor, None",
        ),
    ),
    311: put_right(
        """
import torch

class SinCos(torch.autograd.Function):
    @staticmethod
    def forward(ctx, angle):
        ctx.save_for_backward(angle)
        return {"sin": angle.sin(), "cos": angle.cos()}

    @staticmethod
    def backward(ctx, grad_sin, grad_cos):
        (angle,) = ctx.saved_tensors
        return grad_sin * angle.cos() - grad_cos * angle.sin()

subject = SinCos.apply
inputs = (torch.tensor([0.5, -1.2, 2.0], requires_grad=True),)
""",
        ('{"sin": angle.sin(), "cos": angle.cos()}', "angle.sin(), angle.cos()"),
    ),
    312: put_right(
        """
import torch
import torch.nn.functional as F

class PairMean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.length = x.shape[-1]
        pairs = x.shape[-1] // 2
        return x[..., : 2 * pairs].reshape(*x.shape[:-1], pairs, 2).mean(dim=-1)

    @staticmethod
    def backward(ctx, grad_output):
        grad_pairs = grad_output.repeat_interleave(2, dim=-1) / 2
        return grad_pairs

subject = PairMean.apply
inputs = (torch.tensor([-1.5, 0.2, 0.9, 0.3], requires_grad=True),)
""",
        ("return grad_pairs", "return F.pad(grad_pairs, (0, ctx.length - grad_pairs.shape[-1]))"),
    ),
    313: put_right(
        """
import torch

class SoftDot(torch.autograd.Function):
    @staticmethod
    def forward(ctx, query, key):
        ctx.save_for_backward(query, key)
        return torch.dot(query, key.exp())

    @staticmethod
    def backward(ctx, grad_output):
        query, key = ctx.saved_tensors
        grads = {}
        grads[query.data_ptr()] = grad_output * key.exp()
        grads[key.data_ptr()] = grad_output * query * key.exp()
        return grads[query.data_ptr()], grads[key.data_ptr()]

subject = SoftDot.apply
inputs = (
    torch.tensor([0.5, -1.2, 2.0], requires_grad=True),
    torch.tensor([-0.3, 1.1, -0.7], requires_grad=True),
)
""",
        (
            "        grads = {}\n"
            "        grads[query.data_ptr()] = grad_output * key.exp()\n"
            "        grads[key.data_ptr()] = grad_output * query * key.exp()\n"
            "        return grads[query.data_ptr()], grads[key.data_ptr()]",
            "        return grad_output * key.exp(), grad_output * query * key.exp()",
        ),
    ),
}
