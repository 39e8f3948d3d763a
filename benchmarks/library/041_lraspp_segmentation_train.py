"""LR-ASPP on MobileNetV3: segmentation step with ignored pixels, channels last, bfloat16 autocast."""
# needs: torchvision
import torch
from torchvision.models.segmentation import lraspp_mobilenet_v3_large


def make(device="cuda"):
    model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=5)
    model = model.to(device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4)
    criterion = torch.nn.CrossEntropyLoss(ignore_index=255)

    def step(images, masks):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(images.device.type, dtype=torch.bfloat16):
            loss = criterion(model(images)["out"].float(), masks)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        masks = torch.randint(0, 5, (4, 64, 64), device=device)
        edge = torch.rand(4, 64, 64, device=device) < 0.1
        images = torch.randn(4, 3, 64, 64, device=device).contiguous(memory_format=torch.channels_last)
        return images, masks.masked_fill(edge, 255)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
