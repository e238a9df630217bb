import torch
from gradient_reversal import gradient_reversal

gradient_reversal(torch.rand(3, requires_grad=True), 0.5).sum().backward()
