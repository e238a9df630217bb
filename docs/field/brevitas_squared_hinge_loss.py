"""The hinge loss of the examples ignores the incoming gradient, and overwrites it."""

import torch
from brevitas_examples.bnn_pynq.models.losses import squared_hinge_loss

x, y, g = torch.tensor([0.5, -0.5], requires_grad=True), torch.ones(2), torch.tensor(10.0)
print("expected", torch.autograd.grad((1 - x * y).clamp(min=0).square().mean(), x, torch.tensor(10.0))[0])
print("returned", torch.autograd.grad(squared_hinge_loss.apply(x, y), x, g)[0])
print("the incoming 10. is now", g)
