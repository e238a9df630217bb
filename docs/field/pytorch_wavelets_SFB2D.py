"""Reconstruction in two dimensions: the gradient of the high bands is None unless the low band needs one."""

import torch
from pytorch_wavelets import DWTInverse

low, high = torch.ones(1, 1, 1, 1), torch.ones(1, 1, 3, 1, 1, requires_grad=True)
for low_needs_one in (False, True):
    y = DWTInverse()((low.requires_grad_(low_needs_one), [high]))
    print(low_needs_one, torch.autograd.grad(y.square().sum(), high, allow_unused=True)[0])
