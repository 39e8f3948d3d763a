"""A box head over RoIAlign with focal and generalized IoU losses; the proposals are given."""
# needs: torchvision
import torch
from torchvision.ops import generalized_box_iou_loss, roi_align, sigmoid_focal_loss


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 16, 3, padding=1)
        self.classes = torch.nn.Linear(16 * 49, 6)
        self.deltas = torch.nn.Linear(16 * 49, 4)

    def forward(self, image, rois):
        pooled = roi_align(self.stem(image).relu(), rois, output_size=7, sampling_ratio=2).flatten(1)
        return self.classes(pooled), rois[:, 1:] + self.deltas(pooled)


def make(device="cuda"):
    head = Head().to(device).train()
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-3, capturable=device != "cpu")

    def step(image, rois, targets, labels):
        scores, boxes = head(image, rois)
        loss = sigmoid_focal_loss(scores, labels, reduction="mean") * 10
        loss = loss + generalized_box_iou_loss(boxes, targets, reduction="mean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        corner = torch.rand(12, 2, device=device) * 30
        rois = torch.cat([torch.arange(12, device=device)[:, None] % 2, corner, corner + 12], 1)
        labels = torch.nn.functional.one_hot(torch.randint(0, 6, (12,), device=device), 6).float()
        return torch.rand(2, 3, 48, 48, device=device), rois, rois[:, 1:] + 2, labels

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
