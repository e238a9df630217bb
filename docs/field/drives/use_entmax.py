import entmax
import torch

x, y = torch.randn(3, 4, requires_grad=True), torch.tensor([0, 1, 2])
for f in (entmax.sparsemax, entmax.entmax15, entmax.sparsemax_bisect, entmax.normmax_bisect):
    f(x).pow(2).sum().backward()
entmax.entmax_bisect(x, torch.tensor(1.3, requires_grad=True)).pow(2).sum().backward()
entmax.budget_bisect(x, budget=2).pow(2).sum().backward()
for f in (entmax.SparsemaxLoss, entmax.Entmax15Loss, entmax.SparsemaxBisectLoss, entmax.EntmaxBisectLoss):
    f()(x, y).backward()
entmax.NormmaxBisectLoss()(x, y).backward()
