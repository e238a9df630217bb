"""Layer norm of data that needs no gradient: backward fails for all of the model, unless the weight is frozen."""

import torch
from lxt.explicit.functional import add2, layer_norm

data, bias = torch.randn(2, 3), torch.zeros(3)
for learns in (False, True):
    z = torch.ones(2, 3, requires_grad=True)
    add2(layer_norm(data, torch.ones(3, requires_grad=learns), bias, 1e-6), z).sum().backward()
    print("the weight learns:", learns, z.grad)
