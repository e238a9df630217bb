import memcnn
import torch
from torch import nn

x = torch.rand(2, 4, 3, 3, requires_grad=True)
for kind, options in ((memcnn.AdditiveCoupling, {}), (memcnn.AffineCoupling, {"adapter": memcnn.AffineAdapterNaive})):
    for way in (0, 1):
        block = kind(nn.Conv2d(2, 2, 1), nn.Conv2d(2, 2, 1), implementation_fwd=way, implementation_bwd=way, **options)
        block(x * 1).sum().backward()
        block.inverse(x * 1).sum().backward()
memcnn.InvertibleModuleWrapper(memcnn.AdditiveCoupling(nn.Conv2d(2, 2, 1)))(x * 1).sum().backward()
