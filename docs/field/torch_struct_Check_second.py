"""Checkpointed products: the gradient that create_graph=True returns has no graph, or one that ends in zeros."""

import torch
from torch_struct import LogSemiring
from torch_struct.semirings.checkpoint import CheckpointSemiring, CheckpointShardSemiring

a, b = torch.eye(2).repeat(1, 5, 1, 1).requires_grad_(), torch.tensor([[[[1.0, 3.0], [0.0, 1.0]]] * 5])
b = b.requires_grad_()
for ring in (CheckpointSemiring(LogSemiring), CheckpointShardSemiring(LogSemiring, 1), LogSemiring):
    first = torch.autograd.grad(ring.matmul(a, b)[..., 0].sum(), a, create_graph=True)[0]
    print(first[0, 0].tolist(), torch.autograd.grad(first[..., 0].sum(), a)[0][0, 0] if first.requires_grad else None)
