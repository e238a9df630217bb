from contextlib import suppress

import torch
from lxt.explicit import functional as lf
from lxt.explicit import rules
from torch import nn

x, y, w, b = (torch.randn(s, requires_grad=True) for s in ((2, 3, 4), (2, 3, 4), (4, 4), (4,)))
lf.add2(x, y).sum().backward()
lf.mul2(x, y).sum().backward()
for out in (lf.softmax(x, -1), lf.matmul(x, w), lf.linear_epsilon(x, w, b), lf.mean(x, 1, True), lf.normalize(x)):
    out.sum().backward()
for out in (lf.rms_norm_identity(x, b, 1e-6), lf.layer_norm(x, b, b, 1e-6), rules.identity(torch.tanh, x)):
    out.sum().backward()
rules.epsilon_lrp(torch.mul, 1e-6, x, y).sum().backward()
for rule in (rules.StopRelevanceRule, rules.UniformRule, rules.UniformEpsilonRule, rules.TaylorDecompositionRule):
    with suppress(RuntimeError):  # the last one fails
        rule(nn.Linear(4, 4))(x).sum().backward()
