"""Reconstruction: the gradient of the high band is None unless the low band needs one."""

import torch
from pytorch_wavelets import DWT1DInverse

low, high = torch.ones(1, 1, 3), torch.ones(1, 1, 3, requires_grad=True)
for low_needs_one in (False, True):
    y = DWT1DInverse()((low.requires_grad_(low_needs_one), [high]))
    print(low_needs_one, torch.autograd.grad(y.square().sum(), high, allow_unused=True)[0])
