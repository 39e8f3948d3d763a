"""Inference preprocessing on the GPU: resize, centre crop and normalise with transforms v2, then SqueezeNet."""
# needs: torchvision
import torch
from torchvision.models import squeezenet1_1
from torchvision.transforms import v2


def make(device="cuda"):
    model = squeezenet1_1(weights=None, num_classes=9).to(device).eval()
    prepare = v2.Compose([v2.Resize(72, antialias=True), v2.CenterCrop(64), v2.ToDtype(torch.float32, scale=True),
                          v2.Normalize([0.48, 0.45, 0.4], [0.22, 0.22, 0.22])])

    @torch.inference_mode()
    def classify(images):
        return model(prepare(images))

    return {"fn": classify, "inputs": lambda: (torch.randint(0, 256, (4, 3, 96, 96), device=device, dtype=torch.uint8),),
            "kind": "inference"}
