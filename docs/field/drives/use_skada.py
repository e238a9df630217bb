import torch
from skada.deep.modules import GradientReversalLayer

GradientReversalLayer.apply(torch.randn(3, 4, requires_grad=True), 0.5).sum().backward()
