"""All five losses: their gradient has no graph to the logits, so the second derivative lacks a part."""

import entmax
import torch
from torch.autograd import grad

y, h = torch.tensor([0]), 1e-4
for name in ("sparsemax_loss", "entmax15_loss", "sparsemax_bisect_loss", "entmax_bisect_loss", "normmax_bisect_loss"):
    xs = [torch.tensor([[v, 0.5, 0.1]], dtype=torch.float64, requires_grad=True) for v in (0.2, 0.2 - h, 0.2 + h)]
    at, low, high = (grad(getattr(entmax, name)(x, y).square(), x, create_graph=True)[0][0, 0] for x in xs)
    print(name, grad(at, xs[0])[0][0, 0].item(), "by differences", ((high - low) / (2 * h)).item())
