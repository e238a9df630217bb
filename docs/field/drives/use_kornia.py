import torch
from kornia.geometry.epipolar import find_essential

# The focal loss takes its own function only from 2**19 numbers on, more than a check of every number bears.
p, q = torch.rand(1, 7, 2, dtype=torch.float64, requires_grad=True), torch.rand(1, 7, 2, dtype=torch.float64)
find_essential(p, q).sum().backward()
