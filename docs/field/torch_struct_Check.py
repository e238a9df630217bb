"""Checkpointed semirings: backward fails unless both factors need a gradient, and the second derivative is 0."""

import torch
from torch_struct import LinearChain, LogSemiring
from torch_struct.semirings.checkpoint import CheckpointSemiring

x = torch.arange(36.0).reshape(1, 4, 3, 3).div(36).requires_grad_()
for ring in (LogSemiring, CheckpointSemiring(LogSemiring)):
    first = torch.autograd.grad(LinearChain(ring).sum(x).sum(), x, create_graph=True)[0]
    print(torch.autograd.grad(first.square().sum(), x)[0].flatten()[:3])
    ring.matmul(x, torch.ones(1, 4, 3, 3)).sum().backward()
