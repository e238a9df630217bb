"""A second backward with retain_graph=True fails: the first one frees the graph that was kept inside."""

import torch
from lxt.explicit import functional, rules

x = torch.randn(2, 3, requires_grad=True)
outputs = rules.epsilon_lrp(torch.mul, 1e-6, x, x), functional.layer_norm(x, torch.ones(3), torch.zeros(3), 1e-6)
for y in (*outputs, rules.UniformEpsilonRule(torch.nn.Linear(3, 3))(x)):
    y.sum().backward(retain_graph=True)
    try:
        y.sum().backward()
    except RuntimeError as error:
        print(type(y.grad_fn).__name__, error)
