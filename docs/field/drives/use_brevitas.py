import torch
from brevitas.ops import autograd_ste_ops as ops
from brevitas_examples.bnn_pynq.models.losses import SqrHingeLoss

x, low, high = torch.randn(3, 4, requires_grad=True), -torch.ones(4), torch.ones(4)
for name in ["round", "binary_sign", "ternary_sign", "floor", "ceil", "round_to_zero", "dpu_round"]:
    getattr(ops, name + "_ste_impl")(x).sum().backward()
for y in (ops.scalar_clamp_ste_impl(x, -1.0, 1.0), ops.scalar_clamp_min_ste_impl(x, 0.0)):
    y.sum().backward()
ops.tensor_clamp_ste_impl(x, low, high).sum().backward()
ops.tensor_clamp_ste_impl_(x * 1, low, high).sum().backward()
ops.abs_binary_sign_grad_impl(x).sum().backward()
SqrHingeLoss()(x, x.detach().sign()).backward()
