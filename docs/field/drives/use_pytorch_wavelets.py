import torch
from pytorch_wavelets import DTCWTForward, DTCWTInverse, DWT1DForward, DWT1DInverse, DWTForward, DWTInverse, ScatLayer
from pytorch_wavelets.scatternet import ScatLayerj2

image = torch.randn(2, 3, 8, 8, requires_grad=True)
DWTInverse()(DWTForward(J=1)(image)).pow(2).sum().backward()
DWT1DInverse()(DWT1DForward(J=1)(image[:, :, 0])).pow(2).sum().backward()
DTCWTInverse()(DTCWTForward(J=2)(image)).pow(2).sum().backward()
for biort in ("near_sym_a", "near_sym_b_bp"):
    ScatLayer(biort=biort)(image).sum().backward()
    ScatLayerj2(biort=biort, qshift="qshift_b_bp" if biort.endswith("bp") else "qshift_a")(image).sum().backward()
