import torch
import torchsde
from torch import nn

f = nn.Module()
f.noise_type, f.sde_type, f.a = "diagonal", "ito", nn.Linear(3, 3)
f.f, f.g = (lambda t, y: f.a(y)), (lambda t, y: 0.1 * y)
y = torch.rand(2, 3, requires_grad=True)
torchsde.sdeint_adjoint(f, y, torch.linspace(0, 1, 2), dt=0.2).sum().backward()
f.sde_type = "stratonovich"
torchsde.sdeint_adjoint(
    f, y, torch.linspace(0, 1, 2), dt=0.2, method="reversible_heun", adjoint_method="adjoint_reversible_heun"
).sum().backward()
