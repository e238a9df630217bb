import torch
from pyro import distributions as dist
from pyro.contrib.oed.eig import EwmaLog
from pyro.ops.special import safe_log

a, d, k = torch.rand(3, 2, requires_grad=True), torch.rand(2, requires_grad=True), torch.rand(3, requires_grad=True)
tril = torch.eye(2).requires_grad_()
mixtures = dist.MixtureOfDiagNormals(a, a + 1, k), dist.MixtureOfDiagNormalsSharedCovariance(a, d + 1, k)
normals = (
    dist.OMTMultivariateNormal(d, tril),
    dist.AVFMultivariateNormal(d, tril, torch.rand(2, 3, 2, requires_grad=True)),
)
straight = (
    dist.RelaxedBernoulliStraightThrough(torch.tensor(0.5), d),
    dist.RelaxedOneHotCategoricalStraightThrough(torch.tensor(0.5), k),
)
for one in (*mixtures, *normals, *straight, dist.GaussianScaleMixture(d + 1, k, k + 1)):
    one.rsample().sum().backward()
(safe_log(d) + EwmaLog(0.9)(d + 1, torch.ones(()))).sum().backward()
