"""Sharded products: backward fails where the incoming gradient is not contiguous, as that of a transpose is."""

import torch
from torch_struct import LogSemiring
from torch_struct.semirings.checkpoint import CheckpointShardSemiring

a, b, w = (torch.rand(s, requires_grad=True) for s in ((1, 3, 5, 2, 2), (1, 3, 5, 2, 2), (1, 5, 3, 2, 2)))
for ring in (LogSemiring, CheckpointShardSemiring(LogSemiring, 1)):
    print(torch.autograd.grad((ring.matmul(a, b).transpose(1, 2) * w).sum(), a)[0][0, 0, 0])
