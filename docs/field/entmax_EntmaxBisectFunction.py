"""The second derivative by alpha takes the alpha of backward for a constant."""

import entmax
import torch

x, w, h = torch.tensor([[0.2, 0.5, 0.1]]).double(), torch.tensor([[1.0, 2.0, 4.0]]).double(), 1e-5


def first(alpha):
    return torch.autograd.grad((entmax.entmax_bisect(x, alpha) * w).sum(), alpha, create_graph=True)[0]


a, lower, upper = (torch.tensor([[v]], dtype=torch.float64, requires_grad=True) for v in (1.4, 1.4 - h, 1.4 + h))
print(torch.autograd.grad(first(a), a)[0].item(), "by differences", ((first(upper) - first(lower)) / (2 * h)).item())
