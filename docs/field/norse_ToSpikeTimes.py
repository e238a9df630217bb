"""Backward fails where fewer spikes came than were asked for, which the forward answers with inf."""

import torch
from norse.torch.functional.spikes_to_times_decoder import ToSpikeTimes

spikes = torch.zeros(5, 1, 2)
spikes[1, 0, 0] = 1
times = ToSpikeTimes.apply(spikes.requires_grad_(), 2)
print(times.detach())
times.sum().backward()
