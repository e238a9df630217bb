"""The slope of the sigmoid is nan where its exponential overflows, and its limit is 0."""

import torch
from snntorch import surrogate

x = torch.tensor([-4.0, -1.0, 0.0, 4.0], requires_grad=True)
print(torch.autograd.grad(surrogate.sigmoid(slope=25)(x).sum(), x)[0])
print(torch.autograd.grad(torch.sigmoid(25 * x).sum(), x)[0])
