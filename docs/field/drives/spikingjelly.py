import torch
from spikingjelly.activation_based import surrogate

x, y = torch.randn(4, 3, requires_grad=True), torch.rand(4, 3, requires_grad=True)
for name in surrogate.__all__:
    if name not in ("SurrogateFunctionBase", "MultiLevelSpikeCount") and isinstance(getattr(surrogate, name), type):
        getattr(surrogate, name)()(x).sum().backward()
