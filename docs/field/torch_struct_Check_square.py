"""Checkpointed product of a matrix with itself: its gradient is twice the right one."""

import torch
from torch_struct import LogSemiring
from torch_struct.semirings.checkpoint import CheckpointSemiring

a = torch.tensor([[0.0, 1.0], [2.0, 0.0]]).requires_grad_()
for ring in (CheckpointSemiring(LogSemiring), LogSemiring):
    print(torch.autograd.grad(ring.matmul(a, a).sum(), a)[0])
