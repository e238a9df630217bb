"""The logarithm of the normal distribution: below -1 the second derivative is 0."""

import gpytorch
import torch

x = torch.tensor([0.3, -2.0, -30.0], dtype=torch.float64, requires_grad=True)
for f in (gpytorch.log_normal_cdf, torch.special.log_ndtr):
    first = torch.autograd.grad(f(x).sum(), x, create_graph=True)[0]
    print(first.tolist(), torch.autograd.grad(first.sum(), x)[0])
