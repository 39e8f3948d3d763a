"""ShuffleNet with stochastic weight averaging in every step."""
# needs: torchvision
import torch
from torch.optim.swa_utils import AveragedModel
from torchvision.models import shufflenet_v2_x0_5


def make(device="cuda"):
    model = shufflenet_v2_x0_5(weights=None, num_classes=6).to(device).train()
    averaged = AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        averaged.update_parameters(model)
        return loss.detach()

    def inputs():
        return torch.randn(8, 3, 64, 64, device=device), torch.randint(0, 6, (8,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
