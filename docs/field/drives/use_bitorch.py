import torch
from bitorch import quantizations as q
from bitorch.layers import QActivation
from bitorch.layers.pact import Pact

x = torch.randn(3, 4, requires_grad=True)
for quantize in (q.ApproxSign(), q.WeightDoReFa(), q.InputDoReFa(), q.Sign(), q.SteHeaviside(), q.SwishSign(), Pact()):
    quantize(x).sum().backward()
q.ProgressiveSign(use_global_scaling=False, initial_scale=0.5)(x).sum().backward()
QActivation("sign", gradient_cancellation_threshold=1.0)(x).sum().backward()
