"""Every backward fails: the parameters of the neuron are one level deeper than it looks."""

import torch
from norse.torch.functional.adjoint.lif_refrac_adjoint import lif_refrac_adjoint_step
from norse.torch.functional.lif_refrac import LIFRefracState, LIFState

x, w, r = (torch.randn(s, requires_grad=True) for s in ((2, 4), (3, 4), (3, 3)))
z, _ = lif_refrac_adjoint_step(x, LIFRefracState(LIFState(*torch.rand(3, 2, 3)), torch.zeros(2, 3)), w, r)
z.sum().backward()
