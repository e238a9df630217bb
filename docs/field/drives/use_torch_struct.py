import torch
import torch_struct as ts
from torch_struct.semirings import checkpoint, sample, sparse_max

x = torch.randn(2, 4, 3, 3, requires_grad=True)
smooth = sample.GumbelMaxSemiring(0.5), sample.GumbelCRFSemiring(0.5), sparse_max.SparseMaxSemiring
for ring in (sample.SampledSemiring, sample.MultiSampledSemiring, *smooth):
    ts.LinearChain(ring).marginals(x)
for wrap in (checkpoint.CheckpointSemiring, lambda ring: checkpoint.CheckpointShardSemiring(ring, 2)):
    ts.LinearChain(wrap(ts.LogSemiring)).sum(x).sum().backward()
