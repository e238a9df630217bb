"""A neuron that learns its decay: backward fails where its input is data, for then nothing was saved."""

import torch
from spikingjelly.activation_based.lava_exchange import CubaLIFNode

for needs_one in (True, False):
    neuron = CubaLIFNode(0.1, 0.1, requires_grad=True)
    neuron(torch.ones(1, 3, requires_grad=needs_one)).sum().backward()
    print("the input needs a gradient:", needs_one, neuron.current_decay.grad, neuron.voltage_decay.grad)
