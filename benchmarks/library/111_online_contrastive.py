"""Pairs of bag-of-feature embeddings under the online contrastive loss of sentence-transformers."""
# needs: sentence-transformers
import torch
from sentence_transformers.sentence_transformer.losses import OnlineContrastiveLoss


class Projection(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(24, 32), torch.nn.Tanh(), torch.nn.Linear(32, 16))

    def forward(self, features):
        return {"sentence_embedding": self.net(features["bow"])}


def make(device="cuda"):
    projection = Projection().to(device).train()
    criterion = OnlineContrastiveLoss(projection)
    optimizer = torch.optim.SGD(projection.parameters(), lr=0.05)

    def step(first, second, same):
        loss = criterion([{"bow": first}, {"bow": second}], same)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.rand(10, 24, device=device), torch.rand(10, 24, device=device), torch.arange(10, device=device) % 2

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
