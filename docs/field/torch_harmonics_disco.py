"""Spherical convolution by the optimised operators: the second derivative is 0."""

import torch
from torch_harmonics import DiscreteContinuousConvS2

x = torch.rand(1, 1, 6, 12, dtype=torch.float64, requires_grad=True)
for way in ({"optimized_kernel": False}, {"fused": False}, {"fused": True}):
    torch.manual_seed(0)
    layer = DiscreteContinuousConvS2(1, 1, (6, 12), (6, 12), 3, **way).double()
    first = torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)[0]
    print(way, first.sum().item(), torch.autograd.grad(first.square().sum(), x)[0].sum().item())
