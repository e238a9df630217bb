"""A second backward with retain_graph=True fails: the first one frees the graph that was kept inside."""

import torch
from lxt.explicit import functional, rules

x, linear = torch.randn(2, 3, requires_grad=True), torch.nn.Linear(3, 3)
outputs = rules.epsilon_lrp(torch.mul, 1e-6, x, x), functional.layer_norm(x, torch.ones(3), torch.zeros(3), 1e-6)
for y in (*outputs, rules.UniformEpsilonRule(linear)(x)):
    try:
        _ = y.sum().backward(retain_graph=True), y.sum().backward()
    except RuntimeError as error:
        print(type(y.grad_fn).__name__, error)
