"""AlexNet-like training with the one-cycle policy, which also moves the momentum."""
# needs: torchvision
import torch
from torchvision.ops import Conv2dNormActivation


def make(device="cuda"):
    net = torch.nn.Sequential(Conv2dNormActivation(3, 12, 5, 2, norm_layer=None),
                              Conv2dNormActivation(12, 24, 3, 2, norm_layer=None), torch.nn.Flatten(),
                              torch.nn.Linear(24 * 64, 6)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=400, pct_start=0.05)

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(8, 3, 32, 32, device=device), torch.randint(0, 6, (8,), device=device)),
            "kind": "training_step"}
