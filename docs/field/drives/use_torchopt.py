import torch
import torchopt
from torchopt.diff import implicit, zero_order

net = torch.nn.Linear(3, 1)
inner = torchopt.MetaAdam(net, lr=0.1, use_accelerated_op=True)
inner.step(net(torch.ones(2, 3)).sum())
net(torch.ones(2, 3)).sum().backward()
a = torch.rand(3, requires_grad=True)
implicit.custom_root(lambda x, a: x**3 - a, 1)(lambda x, a: a.detach() ** (1 / 3))(torch.ones(3), a).sum().backward()
for method in ("naive", "forward", "antithetic"):
    solve = zero_order.zero_order(lambda shape: torch.randn(*shape, 3), argnums=0, method=method)
    solve(lambda a: (a**2).sum())(a).sum().backward()
