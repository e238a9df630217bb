"""Backward fails where fewer spikes came than were asked for, which the forward answers with inf, and in float64."""

import torch
from norse.torch.functional.spikes_to_times_decoder import ToSpikeTimes

ones = torch.ones(3, 1, 2)
for spikes in (ones, ones * torch.tensor([[0.0, 1.0]]), ones.double()):
    try:
        print(torch.autograd.grad(ToSpikeTimes.apply(spikes.requires_grad_(), 2).sum(), spikes)[0].flatten())
    except RuntimeError as error:
        print(spikes.dtype, spikes.sum().item(), "spikes:", error)
