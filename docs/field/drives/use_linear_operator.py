import linear_operator as lo
import torch
from linear_operator import operators, settings

m = torch.randn(5, 5, dtype=torch.float64)
a, b = (m @ m.T + 5 * torch.eye(5)).requires_grad_(), torch.rand(5, 2, dtype=torch.float64, requires_grad=True)
A = operators.DenseLinearOperator(a)
lo.sqrt_inv_matmul(A, b).sum().backward()
lo.pivoted_cholesky(A, rank=3).sum().backward()
A.diagonalization(method="lanczos")[0].sum().backward()
operators.ToeplitzLinearOperator(b[:, 0] + 5).diagonalization(method="lanczos")[0].sum().backward()
lo.dsmm(torch.eye(5).double().to_sparse(), b).sum().backward()
with settings.max_cholesky_size(1), settings.fast_computations(True, True, True):
    A = operators.AddedDiagLinearOperator(operators.DenseLinearOperator(a), operators.DiagLinearOperator(a.diagonal()))
    (A @ b).sum().backward()
    A.solve(b).sum().backward()
    A.inv_quad(b).sum().backward()
    sum(A.inv_quad_logdet(b, logdet=True)).sum().backward()
    A.root_decomposition(method="lanczos").to_dense().sum().backward()
