"""timm RandomErasing on a batch that is already on the device, before a fixed backbone."""
# needs: timm
import timm
import torch
from timm.data.random_erasing import RandomErasing


def make(device="cuda"):
    backbone = timm.create_model("resnet10t", pretrained=False, num_classes=0).to(device).eval()
    erase = RandomErasing(probability=0.9, mode="const", max_area=0.4, device=device)

    @torch.no_grad()
    def features(images):
        return backbone(erase(images))

    return {"fn": features, "inputs": lambda: (torch.randn(4, 3, 64, 64, device=device),), "kind": "inference"}
