import torch
import xitorch
from xitorch import integrate, linalg, optimize

m = torch.randn(3, 3, dtype=torch.float64)
a = (m @ m.T + 3 * torch.eye(3)).requires_grad_()
A, b = xitorch.LinearOperator.m(a, is_hermitian=True), torch.rand(3, 1, dtype=torch.float64, requires_grad=True)
linalg.solve(A, b, method="cg").sum().backward()
for options in ({"method": "exacteig"}, {"method": "davidson", "bck_options": {"method": "cg"}}):
    linalg.symeig(A, neig=2, **options)[0].sum().backward()
optimize.rootfinder(lambda y, b: y**3 + y - b, torch.zeros_like(b), params=(b,)).sum().backward()
integrate.quad(lambda x, b: x * b, torch.zeros(1).double(), torch.ones(1).double(), params=(b,)).sum().backward()
integrate.solve_ivp(
    lambda t, y, b: -b * y, torch.linspace(0, 1, 3, dtype=torch.float64), b, params=(b,)
).sum().backward()
integrate.mcquad(
    lambda x, b: x * b, lambda x, b: -(b * x * x).sum(), b[0].detach() * 0, (b,), (b,), nsamples=50
).sum().backward()
