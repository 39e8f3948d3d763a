"""timm Lamb with bias correction on a small EdgeNeXt."""
# needs: timm
import timm
import torch
from timm.optim import Lamb


def make(device="cuda"):
    model = timm.create_model("edgenext_xx_small", pretrained=False, num_classes=6, drop_path_rate=0.0).to(device).train()
    optimizer = Lamb(model.parameters(), lr=5e-3, weight_decay=0.02, max_grad_norm=1.0)

    def step(images, labels):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(4, 3, 64, 64, device=device), torch.randint(0, 6, (4,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
