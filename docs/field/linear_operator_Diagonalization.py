"""Eigenvalues of a Toeplitz matrix: its column gets the row sums of the gradient of the whole matrix."""

import torch
from linear_operator.operators import ToeplitzLinearOperator

column = torch.tensor([4.0, 2.0, 1.0], dtype=torch.float64, requires_grad=True)
operator = ToeplitzLinearOperator(column)
for values in (operator.diagonalization("lanczos")[0], torch.linalg.eigvalsh(operator.to_dense())):
    print(values.sum().item(), torch.autograd.grad(values.sum(), column)[0])  # the trace is 3 * column[0]
