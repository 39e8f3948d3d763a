"""A training step of MobileNetV2 whose images are flipped, jittered and cropped on the GPU by transforms v2."""
# needs: torchvision
import torch
from torchvision.models import mobilenet_v2
from torchvision.transforms import v2


def make(device="cuda"):
    model = mobilenet_v2(weights=None, width_mult=0.25, num_classes=7).to(device).train()
    augment = v2.Compose([v2.RandomHorizontalFlip(0.5), v2.ColorJitter(brightness=0.5),
                          v2.RandomResizedCrop(32, scale=(0.4, 1.0), antialias=True)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(images, labels):
        views = augment(images)
        loss = torch.nn.functional.cross_entropy(model(views), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return views, loss.detach()

    def inputs():
        return torch.rand(8, 3, 32, 32, device=device), torch.randint(0, 7, (8,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
