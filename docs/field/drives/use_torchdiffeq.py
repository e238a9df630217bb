import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint, odeint_event

y, t = torch.randn(2, 3, requires_grad=True), torch.linspace(0, 1, 3).requires_grad_()
f = type("F", (nn.Module,), {"forward": lambda self, t, y: self.a(y).tanh()})()
f.a = nn.Linear(3, 3)
odeint_adjoint(f, y, t, method="rk4").sum().backward()
odeint(f, y, t).sum().backward()
fall = odeint_event(lambda t, y: -torch.ones_like(y), 1 + y[0, :1] ** 2, t[0], event_fn=lambda t, y: y[0] - 0.5)
(fall[0] + fall[1].sum()).backward()
