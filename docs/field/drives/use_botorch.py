import torch
from botorch.models.transforms.input import Round

x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
Round(integer_indices=[0], categorical_features={1: 3})(x).sum().backward()
