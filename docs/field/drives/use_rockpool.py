import torch
from rockpool.nn.modules.torch import lif_bitshift_torch, lif_neuron_torch, lif_torch, updown_torch
from rockpool.transform.torch_transform import int_quant

x = torch.randn(1, 5, 2).mul(3).requires_grad_()
for made in (lif_torch.LIFTorch((2, 2)), lif_torch.LIFTorch((2, 2), spike_generation_fn=lif_torch.PeriodicExponential)):
    made(x)[0].sum().backward()
for made in (
    lif_bitshift_torch.LIFBitshiftTorch((2, 2)),
    lif_neuron_torch.LIFNeuronTorch(2),
    updown_torch.UpDownTorch(2),
):
    made(x)[0].sum().backward()
int_quant(x, n_bits=2).sum().backward()
