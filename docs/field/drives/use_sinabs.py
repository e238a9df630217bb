import torch
from sinabs import activation, layers

x = torch.rand(2, 5, 3).mul(3).requires_grad_()
for spike in (activation.MultiSpike, activation.SingleSpike, activation.MaxSpike(2)):
    layers.LIF(tau_mem=10.0, spike_fn=spike)(x).sum().backward()
for stochastic in (False, True):
    layers.NeuromorphicReLU(stochastic_rounding=stochastic)(x).sum().backward()
