"""RBF kernel: the second derivative by the lengthscale takes a factor of the first for a constant."""

import torch
from gpytorch.kernels import RBFKernel

x, kernel = torch.tensor([[0.0], [1.0]]), RBFKernel()
for inputs in (x, x.clone().requires_grad_()):  # its own function, and the formula taken for inputs with a gradient
    first = torch.autograd.grad(kernel(inputs).to_dense().square().sum(), kernel.raw_lengthscale, create_graph=True)[0]
    print(first.item(), torch.autograd.grad(first.sum(), kernel.raw_lengthscale)[0].item())
