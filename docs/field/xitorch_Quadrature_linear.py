"""An integrand that is linear in its parameter: the second backward fails, where the second derivative is 0."""

import torch
from xitorch.integrate import quad

b, lower, upper = torch.tensor([0.5], dtype=torch.float64, requires_grad=True), *torch.eye(2).double()[:, 1:]
for integral in (b * 0.5, quad(lambda x, b: x * b, lower, upper, params=(b,))):
    first = torch.autograd.grad(integral.sum(), b, create_graph=True)[0]
    print(torch.autograd.grad(first.sum() + b.square().sum(), b))
