"""Train a classifier under autocast with dropout, by a step that is nested in main(); prints the loss of every fifth step."""

import torch
import torch.nn.functional as F
from torch import nn


def main():
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Dropout(0.1), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10),
    ).cuda()  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images = torch.randn(8, 32, 3, 16, 16, device="cuda")
    labels = torch.randint(0, 10, (8, 32), device="cuda")

    def train_step(image, label):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = F.cross_entropy(model(image), label)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for number in range(40):
        loss = train_step(images[number % 8], labels[number % 8])
        if number % 5 == 4:
            print(f"step {number + 1} loss {loss.item():.9e}", flush=True)


if __name__ == "__main__":
    main()
