from contextlib import suppress

import torch
from norse.torch.functional import lif, lif_refrac, lsnn
from norse.torch.functional import spikes_to_times_decoder as decoder
from norse.torch.functional import threshold as th
from norse.torch.functional.adjoint import (
    lif_adjoint,
    lif_mc_adjoint,
    lif_mc_refrac_adjoint,
    lif_refrac_adjoint,
    lsnn_adjoint,
)

x, w, r, g = (torch.randn(s, requires_grad=True) for s in ((2, 4), (3, 4), (3, 3), (3, 3)))
z, v, i, c = torch.zeros(2, 3), torch.full((2, 3), 0.5), torch.ones(2, 3), torch.randn(2, 3, requires_grad=True)
for method in ("super", "tanh", "triangle", "circ", "heavi_erfc"):
    th.threshold(x, method, 0.3).sum().backward()
(th.logistic_fn(x, 0.3) + th.circ_dist_fn(x, 0.3)).sum().backward()
decoder.ToSpikeTimes.apply(torch.ones(5, 2, 3, requires_grad=True), 5).sum().backward()
s, f, p = lif.LIFState(z, v, i), lif.LIFFeedForwardState(v, i), lif_refrac.LIFRefracParameters()
a, b = lif_refrac.LIFRefracState(s, z), lif_refrac.LIFRefracFeedForwardState(f, z)
calls = (
    (lif_adjoint.lif_adjoint_step, x, s, w, r),
    (lif_adjoint.lif_adjoint_step_sparse, x, s, w, r),
    (lif_adjoint.lif_feed_forward_adjoint_step, c, f),
    (lif_adjoint.lif_feed_forward_adjoint_step_sparse, c, f),
    (lif_mc_adjoint.lif_mc_adjoint_step, x, s, w, r, g),
    (lif_mc_refrac_adjoint.lif_mc_refrac_adjoint, x, a, w, r, g),
    (lif_refrac_adjoint.lif_refrac_adjoint_step, x, a, w, r),
    (lif_refrac_adjoint.lif_refrac_adjoint_step_sparse, x, a, w, r, p),
    (lif_refrac_adjoint.lif_refrac_feed_forward_adjoint_step, c, b),
    (lsnn_adjoint.lsnn_adjoint_step, x, lsnn.LSNNState(z, v, i, v), w, r),
    (lsnn_adjoint.lsnn_feed_forward_adjoint_step, c, lsnn.LSNNFeedForwardState(v, i, v)),
)
for step, *arguments in calls:
    with suppress(AttributeError, RuntimeError, TypeError):  # some backwards fail
        step(*arguments)[0].sum().backward()
