import torch
from torch_harmonics import DiscreteContinuousConvS2, RealSHT
from torch_harmonics.distributed import primitives as p

x = torch.randn(1, 2, 8, 16, requires_grad=True)
RealSHT(8, 16)(x).abs().sum().backward()
DiscreteContinuousConvS2(2, 2, (8, 16), (8, 16), 3, fused=True)(x).sum().backward()
for region in (
    p.copy_to_polar_region,
    p.copy_to_azimuth_region,
    p.reduce_from_polar_region,
    p.reduce_from_azimuth_region,
):
    region(x).sum().backward()
for region in (
    p.scatter_to_polar_region,
    p.reduce_from_scatter_to_polar_region,
    p.reduce_from_scatter_to_azimuth_region,
):
    region(x, -2).sum().backward()
for region in (p.gather_from_polar_region, p.gather_from_copy_to_polar_region):
    region(x, -2, [8]).sum().backward()
for region in (p.distributed_transpose_azimuth, p.distributed_transpose_polar):
    region(x, (1, -1), [2]).sum().backward()
(p.polar_halo_exchange(x, 0) + p.polar_halo_reduce(x, 0, 8)).sum().backward()
