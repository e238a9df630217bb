"""The bundled copy of pytorch-wavelets: gradients of high bands missing, those of a magnitude without a graph."""

import torch
from mirtorch.vendors.pytorch_wavelets import DWT1DInverse, DWTInverse
from mirtorch.vendors.pytorch_wavelets.scatternet.lowlevel import SmoothMagFn as Magnitude

one, two = torch.ones(1, 1, 3, requires_grad=True), torch.ones(1, 1, 3, 1, 1, requires_grad=True)
for y, high in ((DWT1DInverse()((one.detach(), [one])), one), (DWTInverse()((torch.ones(1, 1, 1, 1), [two])), two)):
    print("expected", 2 * high.detach().flatten(), torch.autograd.grad(y.square().sum(), high, allow_unused=True)[0])
first = torch.autograd.grad(Magnitude.apply(one, one * 1, 0.1).sum(), one, create_graph=True)[0]
print("expected a graph:", first.requires_grad)
Magnitude.apply(one.detach(), one, 0.1).sum().backward()  # UnboundLocalError: dy
