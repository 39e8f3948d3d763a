"""GPyTorch exact regression: predictive means from the caches, without variances."""
# needs: gpytorch
import gpytorch
import torch


class Regressor(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.LinearMean(1)
        self.covar_module = gpytorch.kernels.RQKernel()

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def make(device="cuda"):
    x = torch.linspace(0, 1, 25, device=device)[:, None]
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Regressor(x, torch.cos(5 * x[:, 0]), likelihood).to(device).eval()

    @torch.no_grad()
    def mean(points):
        with gpytorch.settings.skip_posterior_variances(), gpytorch.settings.fast_pred_var():
            return model(points).mean

    return {"fn": mean, "inputs": lambda: (torch.rand(8, 1, device=device),), "kind": "inference"}
