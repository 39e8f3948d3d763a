"""Mixed-precision training step with loss scaling and a fused optimizer."""
import torch
from torch import nn


class Amp:
    def __init__(self, net, device):
        on_gpu = device == "cuda"
        self.net = net
        self.kind = device
        self.dtype = torch.float16 if on_gpu else torch.bfloat16
        self.opt = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=on_gpu, capturable=on_gpu)
        self.scaler = torch.amp.GradScaler(device, enabled=on_gpu, init_scale=2.0 ** 8)

    def forward_loss(self, x, y):
        with torch.autocast(self.kind, dtype=self.dtype):
            logits = self.net(x)
        return nn.functional.cross_entropy(logits.float(), y)

    def step(self, x, y):
        self.opt.zero_grad(set_to_none=True)
        loss = self.forward_loss(x, y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.opt)
        self.scaler.update()
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(83)
    net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8)).to(device)
    amp = Amp(net, device)

    def inputs():
        return torch.randn(16, 16, device=device), torch.randint(0, 8, (16,), device=device)

    return {"fn": amp.step, "inputs": inputs, "state": lambda: list(net.parameters()), "kind": "training_step"}
