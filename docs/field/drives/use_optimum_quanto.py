import torch
from optimum.quanto import Calibration, freeze, qfloat8, qint8, quantize
from torch import nn

for weights, activations in ((qint8, qint8), (qfloat8, None)):  # four bits compile an extension first
    net = nn.Sequential(nn.Linear(128, 128), nn.LayerNorm(128))
    quantize(net, weights=weights, activations=activations)
    with Calibration():
        net(torch.randn(2, 128))
    net(torch.randn(2, 128, requires_grad=True)).sum().backward()
    freeze(net)
    net(torch.randn(2, 128, requires_grad=True)).sum().backward()
