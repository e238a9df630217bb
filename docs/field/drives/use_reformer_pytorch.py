import torch
from reformer_pytorch import Reformer

net = Reformer(dim=8, depth=2, heads=2, bucket_size=4)
net(torch.randn(1, 8, 8, requires_grad=True)).sum().backward()
