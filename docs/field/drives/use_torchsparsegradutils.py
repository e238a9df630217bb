import torch
import torchsparsegradutils as ts

dense = torch.eye(3).double() * 4 + torch.ones(3, 3).double().tril()
for A in (dense.to_sparse().requires_grad_(), dense.to_sparse_csr().requires_grad_()):
    B = torch.rand(3, 2, dtype=torch.float64, requires_grad=True)
    ts.sparse_mm(A, B).sum().backward()
    ts.sparse_triangular_solve(A, B, upper=False).sum().backward()
    ts.sparse_generic_solve(A, B).sum().backward()
    ts.sparse_generic_lstsq(A, B).sum().backward()
