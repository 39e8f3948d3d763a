"""timm Lion with adaptive gradient clipping on a PoolFormer."""
# needs: timm
import torch
from timm.models.metaformer import MetaFormer
from timm.optim import Lion
from timm.utils import adaptive_clip_grad


def make(device="cuda"):
    model = MetaFormer(num_classes=4, depths=(1, 1, 1, 1), dims=(16, 24, 32, 48)).to(device).train()
    optimizer = Lion(model.parameters(), lr=1e-3, weight_decay=0.1)

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        adaptive_clip_grad(model.parameters(), clip_factor=0.02)
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(4, 3, 64, 64, device=device), torch.randint(0, 4, (4,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
