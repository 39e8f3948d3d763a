"""A LightningModule whose training_step is called by hand, with its own optimizers."""
# needs: lightning
import lightning
import torch


class Regressor(lightning.LightningModule):
    def __init__(self, capturable):
        super().__init__()
        self.save_hyperparameters()
        self.net = torch.nn.Sequential(torch.nn.Linear(10, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 1))

    def training_step(self, batch, batch_idx):
        x, y = batch
        return torch.nn.functional.huber_loss(self.net(x).squeeze(-1), y)

    def configure_optimizers(self):
        return torch.optim.RAdam(self.parameters(), lr=1e-2, capturable=self.hparams.capturable)


def make(device="cuda"):
    module = Regressor(device != "cpu").to(device).train()
    optimizer = module.configure_optimizers()

    def fit(x, y):
        loss = module.training_step((x, y), 0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": fit, "inputs": lambda: (torch.randn(32, 10, device=device), torch.randn(32, device=device)),
            "kind": "training_step"}
