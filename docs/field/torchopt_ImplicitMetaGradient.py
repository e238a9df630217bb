"""The second derivative of a root: the solution is taken for a constant in the first one."""

import torch
from torchopt.diff.implicit import custom_root

a = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
root = custom_root(lambda x, a: x**3 - a, argnums=1)(lambda x, a: a.detach() ** (1 / 3))
for x in (root(torch.ones(1).double(), a), a ** (1 / 3)):
    first = torch.autograd.grad(x, a, create_graph=True)[0]
    print(first.item(), torch.autograd.grad(first, a)[0].item())
