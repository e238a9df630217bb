import torch
from pytorch_revgrad import RevGrad

RevGrad(alpha=0.5)(torch.randn(3, 4, requires_grad=True)).sum().backward()
