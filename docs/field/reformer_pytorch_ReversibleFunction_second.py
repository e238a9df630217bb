"""A gradient penalty is dropped: the gradient that create_graph=True returns has no graph."""

import torch
from reformer_pytorch.reversible import ReversibleSequence
from torch import nn

f, g, x = nn.Tanh(), nn.Tanh(), torch.full((1, 1, 2), 0.5, requires_grad=True)
y1 = x[..., :1] + f(x[..., 1:])
plain = torch.cat([y1, x[..., 1:] + g(y1)], 2)
for y in (ReversibleSequence([(f, g)])(x), plain):
    first = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    print(first.flatten().tolist(), torch.autograd.grad(first.sum(), x)[0] if first.requires_grad else None)
