"""timm Mixup and CutMix on the device, soft targets, MobileNetV3."""
# needs: timm
import timm
import torch
from timm.data import Mixup
from timm.loss import SoftTargetCrossEntropy


def make(device="cuda"):
    model = timm.create_model("mobilenetv3_small_050", pretrained=False, num_classes=10).to(device).train()
    mix = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, switch_prob=0.5, num_classes=10)
    criterion = SoftTargetCrossEntropy()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002)

    def step(images, labels):
        mixed, soft = mix(images.clone(), labels)
        loss = criterion(model(mixed), soft)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(8, 3, 64, 64, device=device), torch.randint(0, 10, (8,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
