import torch
from momentumnet import MomentumNet
from torch import nn

net = MomentumNet([nn.Linear(3, 3), nn.Linear(3, 3)], gamma=0.9, use_backprop=False)
net(torch.randn(2, 3, requires_grad=True)).sum().backward()
