"""Training step assembled from a small registry of components."""
import torch
import torch.nn as nn

OPTIMIZERS = {
    "sgd": lambda ps, lr: torch.optim.SGD(ps, lr=lr, momentum=0.9),
    "adam": lambda ps, lr: torch.optim.Adam(ps, lr=lr, betas=(0.9, 0.98)),
}
LOSSES = {"mse": nn.MSELoss, "l1": nn.L1Loss}


class Recipe:
    def __init__(self, cfg, device):
        self.net = nn.Sequential(*self._layers(cfg["widths"])).to(device)
        self.loss = LOSSES[cfg["loss"]]()
        self.opt = OPTIMIZERS[cfg["optimizer"]](self.net.parameters(), cfg["lr"])

    @staticmethod
    def _layers(widths):
        for i, (a, b) in enumerate(zip(widths, widths[1:])):
            yield nn.Linear(a, b)
            if i < len(widths) - 2:
                yield nn.Tanh()

    def apply_gradients(self):
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)

    def __call__(self, x, y):
        loss = self.loss(self.net(x), y)
        loss.backward()
        self.apply_gradients()
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(35)
    recipe = Recipe({"widths": [6, 32, 32, 2], "loss": "mse", "optimizer": "adam", "lr": 1e-3}, device)

    def inputs():
        return torch.randn(16, 6, device=device), torch.randn(16, 2, device=device)

    return {"fn": recipe, "inputs": inputs,
            "state": lambda: list(recipe.net.parameters()), "kind": "training_step"}
