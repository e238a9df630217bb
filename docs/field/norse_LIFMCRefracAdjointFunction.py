"""Every backward fails: torch.linear does not exist."""

import torch
from norse.torch.functional.adjoint.lif_mc_refrac_adjoint import lif_mc_refrac_adjoint
from norse.torch.functional.lif_refrac import LIFRefracState, LIFState

x, w, r, g = (torch.randn(s, requires_grad=True) for s in ((2, 4), (3, 4), (3, 3), (3, 3)))
z, _ = lif_mc_refrac_adjoint(x, LIFRefracState(LIFState(*torch.rand(3, 2, 3)), torch.zeros(2, 3)), w, r, g)
z.sum().backward()
