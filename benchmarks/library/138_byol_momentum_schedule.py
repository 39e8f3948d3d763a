"""BYOL with a timm backbone and a cosine schedule of the teacher's momentum."""
# needs: timm
import copy
import math

import timm
import torch
from torch.nn.functional import cosine_similarity


class Byol(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.student = timm.create_model("mobilenetv4_conv_small_035", pretrained=False, num_classes=32)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)
        self.predictor, self.progress = torch.nn.Linear(32, 32), 0.0

    def forward(self, first, second):
        return 1 - cosine_similarity(self.predictor(self.student(first)), self.teacher(second)).mean()

    @torch.no_grad()
    def follow(self):
        keep = 1 - 0.4 * (math.cos(math.pi * min(self.progress, 1.0)) + 1) / 2
        for slow, fast in zip(self.teacher.parameters(), self.student.parameters()):
            slow.mul_(keep).add_(fast, alpha=1 - keep)
        self.progress += 0.05


def make(device="cuda"):
    model = Byol().to(device).train()
    optimizer = torch.optim.SGD(model.student.parameters(), lr=0.1)

    def train(first, second):
        loss = model(first, second)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.follow()
        return loss.detach()

    def inputs():
        images = torch.randn(8, 3, 64, 64, device=device)
        return images, images + 0.2 * torch.randn_like(images)

    return {"fn": train, "inputs": inputs, "kind": "training_step"}
