"""The smooth magnitude: its gradient has no graph to x and y, so the second derivative lacks most of itself."""

import torch
from pytorch_wavelets.scatternet.lowlevel import SmoothMagFn

x, y = torch.tensor([0.3], requires_grad=True), torch.tensor([0.4], requires_grad=True)
for r in (SmoothMagFn.apply(x, y, 0.1), (x**2 + y**2 + 0.1**2).sqrt() - 0.1):
    first = torch.autograd.grad(r.square().sum(), x, create_graph=True)[0]
    print(first.item(), torch.autograd.grad(first.sum(), x)[0].item())
