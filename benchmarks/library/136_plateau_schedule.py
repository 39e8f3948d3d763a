"""EfficientNet of torchvision with ReduceLROnPlateau stepped on the training loss."""
# needs: torchvision
import torch
from torchvision.models import EfficientNet
from torchvision.models.efficientnet import MBConvConfig


def make(device="cuda"):
    blocks = [MBConvConfig(1, 3, 1, 16, 16, 1), MBConvConfig(4, 3, 2, 16, 24, 1)]
    model = EfficientNet(blocks, dropout=0.1, stochastic_depth_prob=0.1, num_classes=5).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step(loss.detach())
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(4, 3, 32, 32, device=device), torch.randint(0, 5, (4,), device=device)),
            "kind": "training_step"}
