"""ResNet-18 in float16 autocast with GradScaler and SGD."""
# needs: torchvision
import torch
from torchvision.models import resnet18


def make(device="cuda"):
    model = resnet18(weights=None, num_classes=10).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0)

    def step(images, labels):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16 if device == "cuda" else torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    def inputs():
        return torch.randn(4, 3, 32, 32, device=device), torch.randint(0, 10, (4,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
