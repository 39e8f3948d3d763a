"""A small DenseNet trained on batches of two tiny images at a high rate."""
# needs: torchvision
import torch
from torchvision.models import DenseNet


def make(device="cuda"):
    model = DenseNet(growth_rate=8, block_config=(4, 6, 6), num_init_features=16, num_classes=4).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def step(images, labels):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(2, 3, 32, 32, device=device), torch.randint(0, 4, (2,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
