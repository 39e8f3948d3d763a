"""timm ModelEmaV3 with warm-up beside a ResNeXt."""
# needs: timm
import timm
import torch
from timm.utils import ModelEmaV3


def make(device="cuda"):
    model = timm.create_model("resnet18", pretrained=False, num_classes=5, channels=(8, 16, 32, 64)).to(device).train()
    ema = ModelEmaV3(model, decay=0.9999, use_warmup=True, foreach=device != "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    progress = {"step": 0}

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress["step"] += 1
        ema.update(model, step=progress["step"])
        return loss.detach()

    def inputs():
        return torch.randn(8, 3, 48, 48, device=device), torch.randint(0, 5, (8,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
