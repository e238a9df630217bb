import torch
from mirtorch.alg.cg import CG
from mirtorch.linear import Diff1d, Identity, NuSense
from mirtorch.vendors import pytorch_wavelets as pw
from mirtorch.vendors.pytorch_wavelets.scatternet import ScatLayerj2

x = torch.randn(1, 1, 8, 8, requires_grad=True)
d = Diff1d([8, 8], 0)
(d.H * (d * x[0, 0])).sum().backward()
for mode in ("implicit", "unrolled"):
    CG(d.H * d + Identity([8, 8]), max_iter=3, backward_mode=mode).run(torch.zeros(8, 8), x[0, 0]).sum().backward()
coils, way = torch.ones(1, 1, 8, 8, dtype=torch.complex64), torch.randn(1, 2, 12, requires_grad=True)
sense = NuSense(coils, way, backend="torchkbnufft")
(sense.H * (sense * (x + 0j))).abs().sum().backward()
pw.DWTInverse()(pw.DWTForward(J=1)(x)).pow(2).sum().backward()
pw.DWT1DInverse()(pw.DWT1DForward(J=1)(x[0])).pow(2).sum().backward()
pw.DTCWTInverse()(pw.DTCWTForward(J=2)(x)).pow(2).sum().backward()
for one, two in (("near_sym_a", "qshift_a"), ("near_sym_b_bp", "qshift_b_bp")):
    pw.ScatLayer(biort=one)(x).sum().backward()
    ScatLayerj2(biort=one, qshift=two)(x).sum().backward()
