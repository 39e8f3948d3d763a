"""RetinaNet: detections of two images."""
# needs: torchvision
import torch
from torchvision.models.detection import RetinaNet
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.mobilenetv2 import mobilenet_v2


def make(device="cuda"):
    backbone = mobilenet_v2(weights=None, width_mult=0.25).features
    backbone.out_channels = 1280
    anchors = AnchorGenerator(sizes=((16, 32, 64),), aspect_ratios=((0.5, 1.0, 2.0),))
    model = RetinaNet(backbone, num_classes=4, anchor_generator=anchors, min_size=96, max_size=96, score_thresh=0.001)
    model = model.to(device).eval()

    @torch.no_grad()
    def detect(images):
        found = model(list(images))
        return [(each["boxes"], each["scores"]) for each in found]

    return {"fn": detect, "inputs": lambda: (torch.rand(2, 3, 96, 96, device=device),), "kind": "inference"}
