import torch
from qpth.qp import QPFunction

q, p, g, h = (
    torch.eye(2, dtype=torch.float64),
    torch.randn(2, dtype=torch.float64),
    torch.eye(2).double(),
    torch.ones(2).double(),
)
p.requires_grad_()
QPFunction(verbose=False)(q, p, g, h, torch.Tensor(), torch.Tensor()).sum().backward()
