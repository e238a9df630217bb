import gpytorch
import torch
from gpytorch import kernels
from gpytorch import variational as v

x, z, mean, kernel = (
    torch.rand(6, 1, requires_grad=True),
    torch.rand(3, 1),
    gpytorch.means.ZeroMean(),
    kernels.RBFKernel(),
)
for stationary in (kernels.MaternKernel(nu=2.5), kernel):
    stationary(x.detach()).to_dense().sum().backward()
gpytorch.log_normal_cdf(x).sum().backward()
kinds = (
    (v.VariationalStrategy, v.NaturalVariationalDistribution),
    (v.CiqVariationalStrategy, v.NaturalVariationalDistribution),
    (v.LargeBatchVariationalStrategy, v.TrilNaturalVariationalDistribution),
)
for strategy, distribution in kinds:
    model = gpytorch.models.ApproximateGP(strategy(None, z, distribution(3), learn_inducing_locations=True))
    model.variational_strategy.__dict__["model"] = model
    model.forward = lambda x, **_: gpytorch.distributions.MultivariateNormal(mean(x), kernel(x))
    out = model.train()(x)
    (out.mean.sum() + out.variance.sum() + model.variational_strategy.kl_divergence().sum()).backward()
