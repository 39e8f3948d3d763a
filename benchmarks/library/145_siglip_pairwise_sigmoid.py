"""SigLIP-style image tower of timm with a linear text tower and a pairwise sigmoid loss."""
# needs: timm
import timm
import torch
from torch.nn.functional import logsigmoid, normalize


class Towers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.image = timm.create_model("test_convnext", pretrained=False, num_classes=24)
        self.text = torch.nn.EmbeddingBag(60, 24, mode="mean")
        self.scale, self.shift = torch.nn.Parameter(torch.tensor(2.3)), torch.nn.Parameter(torch.tensor(-10.0))

    def forward(self, images, words):
        logits = self.scale.exp() * normalize(self.image(images), dim=-1) @ normalize(self.text(words), dim=-1).T + self.shift
        return -logsigmoid(logits * (2 * torch.eye(len(images), device=images.device) - 1)).sum(-1).mean()


def make(device="cuda"):
    towers = Towers().to(device).train()
    optimizer = torch.optim.AdamW(towers.parameters(), lr=1e-3, fused=True, capturable=device != "cpu")

    def step(images, words):
        loss = towers(images, words)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(6, 3, 64, 64, device=device),
                                           torch.randint(0, 60, (6, 5), device=device)),
            "kind": "training_step"}
