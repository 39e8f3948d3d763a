"""timm Lookahead around SGD on an MLP-Mixer."""
# needs: timm
import torch
from timm.models.mlp_mixer import MlpMixer
from timm.optim import Lookahead


def make(device="cuda"):
    model = MlpMixer(num_classes=5, img_size=32, patch_size=8, num_blocks=2, embed_dim=32).to(device).train()
    optimizer = Lookahead(torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9), alpha=0.5, k=3)

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(8, 3, 32, 32, device=device), torch.randint(0, 5, (8,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
