"""A network one of whose functions is frozen: backward fails, where plain autograd does not."""

import torch
from momentumnet import MomentumNet
from torch import nn

functions = [nn.Linear(3, 3).requires_grad_(False), nn.Linear(3, 3)]
for plain in (True, False):
    MomentumNet(functions, gamma=0.9, use_backprop=plain)(torch.ones(2, 3, requires_grad=True)).sum().backward()
    print(plain, functions[1].bias.grad)
