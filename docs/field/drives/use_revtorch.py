import torch
from revtorch import ReversibleBlock, ReversibleSequence
from torch import nn

net = ReversibleSequence(nn.ModuleList(ReversibleBlock(nn.Linear(3, 3), nn.Linear(3, 3)) for _ in range(2)))
net(torch.randn(4, 6, requires_grad=True)).sum().backward()
