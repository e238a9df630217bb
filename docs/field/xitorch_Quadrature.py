"""Limits given as numbers, which the documentation allows: every backward fails."""

import torch
from xitorch.integrate import quad

b = torch.tensor([0.5], dtype=torch.float64, requires_grad=True)
quad(lambda x, b: x * b, *torch.tensor([[0.0], [1.0]]).double(), params=(b,)).sum().backward()
print("limits as tensors", b.grad)
quad(lambda x, b: x * b, 0.0, 1.0, params=(b,)).sum().backward()
