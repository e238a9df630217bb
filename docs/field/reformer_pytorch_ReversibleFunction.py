"""Two calls before one backward: the blocks redo both with the random numbers of the last, so the first is wrong."""

import torch
from reformer_pytorch import Reformer

net, x = Reformer(dim=8, depth=1, heads=2, bucket_size=4, n_hashes=1), torch.randn(1, 16, 8, requires_grad=True)
for calls in (1, 2):
    torch.manual_seed(0)
    y, *_ = [net(x) for _ in range(calls)]
    print(calls, y.sum().item(), torch.autograd.grad(y.square().sum(), x)[0][0, 0, :3])
