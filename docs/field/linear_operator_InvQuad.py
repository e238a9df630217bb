"""Quadratic forms with an inverse, and square roots: the gradient that create_graph=True returns has no graph."""

import linear_operator as lo
import torch

a, b = torch.tensor([[2.0, 0.5], [0.5, 1.0]]).double(), torch.ones(2, 1, dtype=torch.float64, requires_grad=True)
ours = lo.inv_quad(a, b).sum(), lo.inv_quad_logdet(a, b)[0].sum(), lo.sqrt_inv_matmul(a, b).square().sum()
for loss in (*ours, (b.mT @ torch.linalg.solve(a, b)).sum()):  # all four are the same number
    first = torch.autograd.grad(loss, b, create_graph=True)[0]
    print(first.flatten().tolist(), torch.autograd.grad(first.sum(), b)[0].flatten() if first.requires_grad else None)
