"""Train an image classifier in half precision: python program.py --epochs 3 --batch 64."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

PRECISION = torch.float16
CLASSES, SIDE, BATCH = 4, 8, 16


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(channels), nn.BatchNorm2d(channels)

    def forward(self, x):
        out = F.relu(self.norm1(self.conv1(x)))
        return F.relu(x + self.norm2(self.conv2(out)))


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.Sequential(*(Residual(width) for _ in range(4)))
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Trainer:
    def __init__(self, device, lr=0.05, clip=5.0):
        self.device = torch.device(device)
        self.model = Net().to(self.device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
        # Starts far too high on purpose, as our large runs do: the first steps overflow and are skipped.
        self.scaler = torch.amp.GradScaler(self.device.type, init_scale=2.0**26, growth_interval=12)
        self.clip = clip

    def step(self, images, labels):
        images, labels = images.to(self.device), labels.to(self.device)
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, PRECISION):
            logits = self.model(images)
            loss = F.cross_entropy(logits.float(), labels, label_smoothing=0.1)
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        hits = (logits.argmax(1) == labels).sum()
        return loss.detach(), scale, hits / len(labels)

    def state(self):
        return self.model.state_dict()


def batches(count, seed):
    """Images of a bright square in one of four places, with noise."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for _ in range(count):
        labels = torch.randint(CLASSES, (BATCH,), generator=generator)
        images = torch.randn(BATCH, 3, SIDE, SIDE, generator=generator)
        for place in range(CLASSES):
            images[labels == place, place % 3, place : place + 3, place : place + 3] += 1.5
        made.append((images, labels))
    return made


def build(device):
    return Trainer(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(args.device, args.lr)
    for epoch in range(args.epochs):
        hits = 0.0
        for images, labels in batches(args.steps, epoch):
            loss, scale, hit = trainer.step(images, labels)
            hits += hit.item()
        print(f"epoch {epoch} loss {loss.item():.3f} scale {scale:.0f} accuracy {hits / args.steps:.3f}")


if __name__ == "__main__":
    main()
