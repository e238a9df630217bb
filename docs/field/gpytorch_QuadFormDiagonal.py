"""The diagonal of a quadratic form: the second derivative is missing."""

import torch
from gpytorch.variational.large_batch_variational_strategy import QuadFormDiagonal

m, x = torch.tensor([[2.0, 1.0], [1.0, 3.0]]), torch.ones(2, 3, requires_grad=True)
for y in (QuadFormDiagonal.apply(m, x), (x.mT @ m @ x).diagonal()):
    first = torch.autograd.grad(y.sum(), x, create_graph=True)[0]
    print(first[:, 0].tolist(), torch.autograd.grad(first.sum(), x)[0][:, 0] if first.requires_grad else None)
