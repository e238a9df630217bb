"""A second backward with retain_graph=True fails: the first one has changed its saved tensors in place."""

import torch
from momentumnet import MomentumNet
from torch import nn

for plain in (True, False):
    x = torch.ones(2, 3, requires_grad=True)
    loss = MomentumNet([nn.Linear(3, 3), nn.Linear(3, 3)], gamma=0.9, use_backprop=plain)(x).sum()
    loss.backward(retain_graph=True)
    loss.backward()
    print(plain, x.grad)
