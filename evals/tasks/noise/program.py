"""Train a denoising autoencoder with dropout and checkpointed blocks: python program.py --steps 300."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

FEATURES, WIDTH, BLOCKS, BATCH = 48, 96, 4, 32
FIRST_NOISE, LAST_NOISE, RAMP = 0.05, 0.6, 40


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x):
        return x + self.down(self.dropout(F.gelu(self.up(self.norm(x)))))


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(FEATURES, WIDTH), nn.Linear(WIDTH, FEATURES)
        self.blocks = nn.ModuleList(Block() for _ in range(BLOCKS))

    def forward(self, x):
        x = self.encode(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False)  # dropout in the backward pass is that of the forward pass
        return self.decode(x)


class Trainer:
    def __init__(self, device, lr=1e-3):
        self.device = torch.device(device)
        self.model = Denoiser().to(self.device)
        self.optimizer = torch.optim.NAdam(self.model.parameters(), lr=lr)
        self.generator = torch.Generator(self.device).manual_seed(7)
        self.count = 0

    def level(self):
        """How much noise the step of today gets: it ramps up."""
        return FIRST_NOISE + (LAST_NOISE - FIRST_NOISE) * min(1.0, self.count / RAMP)

    def step(self, clean):
        clean = clean.to(self.device)
        noise = torch.randn(clean.shape, generator=self.generator, device=self.device)
        noisy = clean + self.level() * noise
        self.optimizer.zero_grad()
        restored = self.model(noisy)
        loss = F.mse_loss(restored, clean)
        loss.backward()
        self.optimizer.step()
        self.count += 1
        return loss.detach(), (restored.detach() - clean).abs().max()

    def state(self):
        return self.model.state_dict()


def batches(count, seed):
    """Signals of a few sine waves."""
    generator = torch.Generator().manual_seed(seed)
    time = torch.linspace(0, 6.28, FEATURES)
    made = []
    for _ in range(count):
        speed, phase = 5 * torch.rand(BATCH, 1, generator=generator), 6.28 * torch.rand(BATCH, 1, generator=generator)
        made.append((torch.sin(speed * time + phase),))
    return made


def build(device):
    return Trainer(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(args.device, args.lr)
    for number, batch in enumerate(batches(args.steps, 0)):
        loss, largest = trainer.step(*batch)
        if number % 50 == 0:
            print(f"step {number} noise {trainer.level():.2f} loss {loss.item():.4f} largest {largest.item():.2f}")


if __name__ == "__main__":
    main()
