"""sentence-transformers: CachedMultipleNegativesRankingLoss (GradCache) over a small embedding model."""
# needs: sentence-transformers
import torch
from sentence_transformers.losses import CachedMultipleNegativesRankingLoss


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(300, 32), torch.nn.Linear(32, 32)

    def forward(self, features):
        mask = features["attention_mask"].unsqueeze(-1)
        pooled = (self.table(features["input_ids"]) * mask).sum(1) / mask.sum(1).clamp(min=1)
        return {**features, "sentence_embedding": self.head(pooled)}


def make(device="cuda"):
    model = torch.nn.Sequential(Encoder()).to(device).train()
    loss_of = CachedMultipleNegativesRankingLoss(model, mini_batch_size=4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(queries, answers):
        features = [{"input_ids": ids, "attention_mask": (ids > 20).long()} for ids in (queries, answers)]
        loss = loss_of(features, None)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return tuple(torch.randint(0, 300, (8, 12), device=device) for _ in range(2))

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
