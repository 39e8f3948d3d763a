"""GPyTorch exact regression: one step on the marginal likelihood."""
# needs: gpytorch
import gpytorch
import torch


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def make(device="cuda"):
    x = torch.rand(30, 2, device=device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device)
    model = Exact(x, torch.sin(6 * x[:, 0]), likelihood).to(device).train()
    likelihood.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05, capturable=device != "cpu")

    def step(noise):
        optimizer.zero_grad()
        loss = -mll(model(x), torch.sin(6 * x[:, 0]) + 0.1 * noise)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(30, device=device),), "kind": "training_step"}
