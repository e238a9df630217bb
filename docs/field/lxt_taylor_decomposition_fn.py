"""The Taylor rule: every call fails, without a bias in backward and with one in forward."""

import torch
from lxt.explicit.rules import TaylorDecompositionRule

for bias in (False, True):
    try:
        TaylorDecompositionRule(torch.nn.Linear(3, 3), bias=bias)(torch.ones(2, 3, requires_grad=True)).sum().backward()
    except (RuntimeError, UnboundLocalError) as error:
        print(bias, type(error).__name__, error)
