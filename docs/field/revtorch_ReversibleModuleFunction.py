"""A second backward with retain_graph=True fails: the first one has thrown the output away."""

import torch
from revtorch import ReversibleBlock, ReversibleSequence
from torch import nn

x = torch.randn(4, 6, requires_grad=True)
loss = ReversibleSequence(nn.ModuleList([ReversibleBlock(nn.Linear(3, 3), nn.Linear(3, 3))]))(x).sum()
loss.backward(retain_graph=True)
loss.backward()
