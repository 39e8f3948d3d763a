"""timm ModelEmaV2 beside a tiny GhostNet; the averaged model scores the batch as well."""
# needs: timm
import timm
import torch
from timm.utils import ModelEmaV2


def make(device="cuda"):
    net = timm.create_model("ghostnet_050", pretrained=False, num_classes=5, drop_rate=0.0).to(device).train()
    ema = ModelEmaV2(net, decay=0.9)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-4, momentum=0.9, capturable=device != "cpu")

    def step(images, labels):
        net.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        ema.update(net)
        with torch.no_grad():
            return loss.detach(), ema.module(images)

    def inputs():
        return torch.randn(16, 3, 64, 64, device=device), torch.randint(0, 5, (16,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
