import snntorch as snn
import torch
from snntorch import functional, surrogate
from snntorch._neurons.leakykernel import LeakyKernel
from snntorch.functional.quant import state_quant

x = torch.randn(6, 2, 3, requires_grad=True)
given = surrogate.custom_surrogate(lambda x, grad, spikes: grad / (1 + x.abs()) ** 2)
makers = "straight_through_estimator triangular fast_sigmoid atan heaviside sigmoid spike_rate_escape SSO SFS"
for spike in (given, *(getattr(surrogate, name)() for name in makers.split())):
    snn.Leaky(beta=0.9, spike_grad=spike)(x)[0].sum().backward()
for layer in (snn.LeakyParallel(3, 3), LeakyKernel(3, 3)):
    layer(x).sum().backward()
state_quant(num_bits=2)(x).sum().backward()
for loss in (
    functional.mse_temporal_loss(tolerance=2),
    functional.mse_temporal_loss(on_target=[0, 2], off_target=[3, 5], multi_spike=True),
):
    loss((x > 0).float() + x - x.detach(), torch.tensor([0, 2])).backward()
