"""kornia: focal and Dice losses of a small segmentation network."""
# needs: kornia
import torch
from kornia.losses import DiceLoss, FocalLoss


def make(device="cuda"):
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.InstanceNorm2d(16, affine=True), torch.nn.ReLU(),
                              torch.nn.Conv2d(16, 4, 1)).to(device).train()
    focal, dice = FocalLoss(alpha=None, gamma=2.0, reduction="mean"), DiceLoss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=torch.tensor(3e-3, device=device), capturable=device != "cpu",
                                  foreach=device != "cpu")

    def step(images, masks):
        scores = net(images)
        loss = focal(scores, masks) + dice(scores, masks)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.rand(2, 3, 24, 24, device=device),
                                           torch.randint(0, 4, (2, 24, 24), device=device)),
            "kind": "training_step"}
