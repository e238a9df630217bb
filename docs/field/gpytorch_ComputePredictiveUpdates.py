"""Predictive updates: the second derivative by the data covariance is missing."""

import torch
from gpytorch.variational.variational_strategy import ComputePredictiveUpdates

chol, m, v = torch.eye(2), torch.tensor([[2.0, 1.0], [1.0, 3.0]]), torch.ones(2)
x = torch.ones(2, 3, requires_grad=True)
for variance in (ComputePredictiveUpdates.apply(chol, x, m, v)[1], (x.mT @ m @ x).diagonal()):
    first = torch.autograd.grad(variance.sum(), x, create_graph=True)[0]
    print(first[:, 0].tolist(), torch.autograd.grad(first.sum(), x)[0][:, 0] if first.requires_grad else None)
