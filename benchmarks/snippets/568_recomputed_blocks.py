"""Deep residual network trained with activation recomputation."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.body(x)


class Deep(nn.Module):
    def __init__(self, width=12, depth=4, recompute=True):
        super().__init__()
        self.blocks = nn.ModuleList(Residual(width) for _ in range(depth))
        self.recompute = recompute

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            if self.recompute and self.training and i % 2:
                x = checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)
            else:
                x = block(x)
        return x


def make(device="cuda"):
    torch.manual_seed(78)
    net = Deep().to(device).train()
    opt = torch.optim.Adam(net.parameters(), lr=1e-3, capturable=(device == "cuda"))

    def step(x):
        opt.zero_grad(set_to_none=True)
        noisy = x + 0.1 * torch.randn_like(x)
        loss = nn.functional.mse_loss(net(noisy), x)
        loss.backward()
        opt.step()
        return loss.detach()

    return {
        "fn": step,
        "inputs": lambda: (torch.randn(8, 12, device=device),),
        "state": lambda: list(net.parameters()),
        "kind": "training_step",
    }
