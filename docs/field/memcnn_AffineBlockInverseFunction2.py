"""The inverse of the affine block: the gradient of the first half of its input lacks the scale."""

import memcnn
import torch
from torch import nn

f, g, x = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1), torch.ones(1, 2, 1, 1, requires_grad=True)
for way in (1, -1):  # its own function, and plain autograd
    y = memcnn.AffineCoupling(f, g, adapter=memcnn.AffineAdapterNaive, implementation_bwd=way).inverse(x * 1)
    print(torch.autograd.grad(y.sum(), x)[0].flatten())
