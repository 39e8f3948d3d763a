"""torchmetrics functional accuracy as it comes, beside the loss of a training step."""
# needs: torchmetrics
import torch
from torchmetrics.functional.classification import multiclass_accuracy


def make(device="cuda"):
    net = torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.ReLU(), torch.nn.Linear(20, 4)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x, y):
        logits = net(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach(), multiclass_accuracy(logits.detach(), y, num_classes=4)

    return {"fn": step, "inputs": lambda: (torch.randn(32, 10, device=device), torch.randint(0, 4, (32,), device=device)),
            "kind": "training_step"}
