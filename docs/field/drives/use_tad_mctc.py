import torch
from tad_mctc.autograd import attach_gradient
from tad_mctc.storch import linalg, pairwise
from tad_mctc.storch.implicit import implicit_root
from tad_mctc.storch.linsolve import dense_solve, implicit_solve

b, p = torch.rand(3, dtype=torch.float64, requires_grad=True), torch.rand(3, 3, dtype=torch.float64, requires_grad=True)
a = (p @ p.T + torch.eye(3)).detach().requires_grad_()
attach_gradient(lambda x: x.logsumexp(-1), b, b.softmax(-1)).backward()
linalg.eighb(a)[0].sum().backward()
dense_solve(a, b).sum().backward()
implicit_solve(lambda x, a: a @ x, b, a).solution.sum().backward()
implicit_root(lambda z, p: z**3 - p, b.detach() ** (1 / 3), b).sum().backward()
pairwise.pair_product(lambda r, i, j: 1 / (1 + r), p, b).sum().backward()
