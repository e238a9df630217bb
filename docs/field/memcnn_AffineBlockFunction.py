"""The affine block: the gradient that create_graph=True returns has no graph, so a penalty on it is dropped."""

import memcnn
import torch
from torch import nn

f, g, x = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1), torch.ones(1, 2, 1, 1, requires_grad=True)
for way in (0, -1):  # its own function, and plain autograd
    y = memcnn.AffineCoupling(f, g, adapter=memcnn.AffineAdapterNaive, implementation_fwd=way)(x * 1)
    first = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    print(first.flatten().tolist(), torch.autograd.grad(first.sum(), x)[0].flatten() if first.requires_grad else None)
