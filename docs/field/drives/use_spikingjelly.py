import torch
from spikingjelly._ops.surrogate import _surrogate_spike
from spikingjelly.activation_based import lava_exchange, quantize, surrogate
from spikingjelly.activation_based.layer.online_learning import ReplaceforGrad
from spikingjelly.activation_based.memopt import checkpointing, compress
from spikingjelly.activation_based.model.spike_dhs import DSpike
from spikingjelly.activation_based.neuron import dsr
from spikingjelly.timing_based import functional, solver

x, y = torch.rand(4, 3, requires_grad=True), torch.rand(4, 3, requires_grad=True)
kinds = [k for k in surrogate.SurrogateFunctionBase.__subclasses__() if k.__name__ != "MultiLevelSpikeCount"]
for kind in (*kinds, DSpike):
    kind()(x).sum().backward()
for f in (quantize.round, quantize.ceil, quantize.floor, quantize.step_quantize):
    f(x).sum().backward()
(quantize.clamp(x, -1.0, 1.0) + quantize.multi_level_spike_count(x, 3) + quantize.k_bit_quantize(x, 2)).sum().backward()
(ReplaceforGrad.apply(x, y) + _surrogate_spike(x, 4.0, 0)).sum().backward()
lava_exchange.LeakyIntegratorStep.apply(x, torch.tensor([100.0]), y, 64).sum().backward()
checkpointing.checkpoint(
    torch.sin, (x > 0.5).float().requires_grad_(), compressor=compress.BooleanSpikeCompressor()
).sum().backward()
(dsr.DSRIFNode(T=4)(x) + dsr.DSRLIFNode(T=4)(x)).sum().backward()
events = torch.tensor([1.0, 2.0, 3.0], requires_grad=True), torch.tensor([0, 1, 2]), torch.tensor([0, 3])
weight = torch.ones(2, 3, requires_grad=True)
sum(out[out.isfinite()].sum() for out in functional.tempotron(*events, weight, 10.0)[:2]).backward()
out = functional.srm(*events, weight, 10.0)[0]
out[out.isfinite()].sum().backward()
solver.first_spike_time(
    lambda t, piece, w: (w * t - 1, w + 0 * t), torch.tensor([0.0, 5.0]), (weight[0, 0],)
).sum().backward()
