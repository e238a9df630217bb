import torch
import torch_semiring_einsum as tse

a, b = torch.rand(2, 3, requires_grad=True), torch.rand(3, 4, requires_grad=True)
equation = tse.compile_equation("ij,jk->ik")
for einsum in (tse.einsum, tse.log_einsum):
    einsum(equation, a, b, block_size=2).sum().backward()
