"""Sparse least squares: the gradient that create_graph=True returns has no graph."""

import torch
from torchsparsegradutils import sparse_generic_lstsq

a, b = torch.tensor([[2.0, 0.0], [1.0, 1.0]]).double(), torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
for x in (sparse_generic_lstsq(a.to_sparse_csr(), b), torch.linalg.solve(a, b)):
    first = torch.autograd.grad(x.square().sum(), b, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), b, allow_unused=True)[0] if first.requires_grad else None
    print(first.flatten().tolist(), second)
