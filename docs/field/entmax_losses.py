"""All five losses: the gradient that create_graph=True returns has no graph, so a penalty on it is dropped."""

import entmax
import torch

x, y = torch.tensor([[0.2, 0.5, 0.1]], dtype=torch.float64, requires_grad=True), torch.tensor([0])
for name in ("sparsemax_loss", "entmax15_loss", "sparsemax_bisect_loss", "entmax_bisect_loss", "normmax_bisect_loss"):
    first = torch.autograd.grad(getattr(entmax, name)(x, y).sum(), x, create_graph=True)[0]
    print(name, first.detach(), "requires_grad:", first.requires_grad)
