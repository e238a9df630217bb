"""The losses: a gradient penalty fails, for the gradient that create_graph=True returns knows nothing of the logits."""

import entmax
import torch

x = torch.tensor([[0.2, 0.5, 0.1]], dtype=torch.float64, requires_grad=True)
plain = (entmax.sparsemax(x).square().sum() - 1) / -2 + (entmax.sparsemax(x) * x).sum() - x[0, 0]
for loss in (entmax.sparsemax_loss(x, torch.tensor([0])).sum(), plain):
    first = torch.autograd.grad(loss, x, create_graph=True)[0]
    print(
        first.detach(), torch.autograd.grad(first.square().sum(), x, allow_unused=True) if first.requires_grad else None
    )
