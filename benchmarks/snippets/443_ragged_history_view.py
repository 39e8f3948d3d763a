"""User history pooled over its valid prefix."""
import torch
import torch.nn as nn


class Prefix:
    """View of padded rows by their stored lengths."""

    def __init__(self, values, lengths):
        self.values, self.lengths = values, lengths

    def __len__(self):
        return self.values.shape[0]

    def __getitem__(self, i):
        return self.values[i, : self.lengths[i]]


class HistoryModel(nn.Module):
    def __init__(self, items=90, dim=12):
        super().__init__()
        self.emb = nn.Embedding(items, dim)
        self.att = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, 1)

    def pool(self, seq):
        w = self.att(seq).softmax(dim=0)
        return (w * seq).sum(0)

    def forward(self, ids, lengths):
        view = Prefix(self.emb(ids), lengths)
        users = [self.pool(view[i]) for i in range(len(view))]
        return self.out(torch.stack(users)).squeeze(-1).sigmoid()


def make(device="cuda"):
    torch.manual_seed(43)
    model = HistoryModel().to(device)

    def score(ids, lengths):
        with torch.no_grad():
            return model(ids, lengths)

    def inputs():
        return torch.randint(0, 90, (4, 11), device=device), torch.randint(2, 11, (4,), device=device)

    return {"fn": score, "inputs": inputs, "kind": "inference"}
