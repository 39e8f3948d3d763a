"""timm ConvNeXt with drop path, layer scale, and AdamW by parameter groups."""
# needs: timm
import timm
import torch
from timm.optim import param_groups_weight_decay


def make(device="cuda"):
    model = timm.create_model("convnext_atto", pretrained=False, num_classes=8, drop_path_rate=0.3, depths=(1, 1, 2, 1),
                              dims=(16, 24, 32, 48)).to(device).train()
    groups = param_groups_weight_decay(model, weight_decay=0.05)
    optimizer = torch.optim.AdamW(groups, lr=1e-3, capturable=device != "cpu")

    def step(images, labels):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(4, 3, 64, 64, device=device), torch.randint(0, 8, (4,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
