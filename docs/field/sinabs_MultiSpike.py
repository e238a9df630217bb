"""Spikes: the surrogate gradient that create_graph=True returns has no graph, for a copy of the input was saved."""

import torch
from sinabs.activation import MultiSpike, SingleExponential

x = torch.tensor([0.3, 0.6], requires_grad=True)
surrogate = SingleExponential()
for first in (
    torch.autograd.grad(MultiSpike.apply(x, 1.0, surrogate).sum(), x, create_graph=True)[0],
    surrogate(x, 1.0),
):
    print(first.tolist(), torch.autograd.grad(first.sum(), x)[0] if first.requires_grad else None)
