"""Scattering layers: a gradient penalty is dropped, or fails where the incoming gradient has a graph."""

import torch
from pytorch_wavelets import ScatLayer

x, layer, h = torch.rand(1, 1, 8, 8, dtype=torch.float64), ScatLayer().double(), 1e-5
one, two = (torch.autograd.grad(layer(y.requires_grad_()).sum(), y)[0].sum() for y in (x - h, x + h))
first = torch.autograd.grad(layer(x.requires_grad_()).sum(), x, create_graph=True)[0]
print("changes by", ((two - one) / (2 * h)).item(), "requires_grad:", first.requires_grad)
torch.autograd.grad(layer(x).square().sum(), x, create_graph=True)
