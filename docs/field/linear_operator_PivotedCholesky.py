"""Partial Cholesky: the gradient that create_graph=True returns has no graph, so the second derivative is dropped."""

import linear_operator as lo
import torch

m, h = torch.tensor([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]]).double(), 1e-4
ts = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (1.0, 1.0 - h, 1.0 + h)]
losses = [lo.pivoted_cholesky(m * t, rank=2).sum() for t in ts]
at, low, high = (torch.autograd.grad(y, t, create_graph=True)[0] for y, t in zip(losses, ts, strict=True))
print("requires_grad:", at.requires_grad, "by differences", ((high - low) / (2 * h)).item())
