"""The inverse of the additive block: the halves of the gradient of its input are swapped."""

import memcnn
import torch
from torch import nn

f, g, x = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1), torch.ones(1, 2, 1, 1, requires_grad=True)
for way in (0, -1):  # its own function, and plain autograd
    y = memcnn.AdditiveCoupling(f, g, implementation_bwd=way).inverse(x * 1)
    print(torch.autograd.grad(y[:, 0].sum(), x)[0].flatten())
