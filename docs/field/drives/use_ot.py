import ot
import torch

a = torch.rand(3, dtype=torch.float64).softmax(0).requires_grad_()
x, y = torch.rand(3, 2, dtype=torch.float64, requires_grad=True), torch.rand(3, 2, dtype=torch.float64)
ot.emd2(a, a.detach(), ot.dist(x, y)).backward()
ot.gaussian.bures_wasserstein_distance(x[0], y[0], x.T @ x, y.T @ y).backward()
