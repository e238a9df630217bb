"""The adjoint method drops a gradient penalty: the gradient that create_graph=True returns has no graph."""

import torch
from torchdiffeq import odeint, odeint_adjoint

y, t = torch.tensor([0.5], dtype=torch.float64, requires_grad=True), torch.tensor([0.0, 0.5])
for solve, options in ((odeint_adjoint, {"adjoint_params": ()}), (odeint, {})):
    end = solve(lambda t, y: y**2, y, t, **options)[-1].sum()  # 1 / (2 - t), in a loss with the square of its gradient
    penalty = torch.autograd.grad(end, y, create_graph=True)[0].square().sum()
    print((end + penalty).item(), torch.autograd.grad(end + penalty, y)[0].item())
