import freegrad
import torch

x = torch.randn(3, 4, requires_grad=True)
with freegrad.use("rectangular"):
    freegrad.Activation("ReLU")(x).sum().backward()
