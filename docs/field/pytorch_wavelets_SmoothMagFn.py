"""The smooth magnitude: backward fails where only the imaginary part needs a gradient."""

import torch
from pytorch_wavelets.scatternet.lowlevel import SmoothMagFn

x, y = torch.ones(2), torch.ones(2, requires_grad=True)
print("expected", torch.autograd.grad((x**2 + y**2 + 0.1**2).sqrt().sum(), y)[0])
SmoothMagFn.apply(x, y, 0.1).sum().backward()  # UnboundLocalError: dy
