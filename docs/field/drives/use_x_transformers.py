import torch
from x_transformers.belief_state_wrapper import detach_multiple

a, b = detach_multiple(torch.rand(3, requires_grad=True), torch.rand(3, requires_grad=True))
(a * b).sum().backward()
