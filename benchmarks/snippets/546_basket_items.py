"""Basket recommender with catalogue objects that know their items."""
import torch
from torch import nn


class Slot:
    def __init__(self, offset, size):
        self.offset, self.size = offset, size

    def item(self):
        return self.offset

    def numpy(self):
        return slice(self.offset, self.offset + self.size)


class Catalogue:
    def __init__(self, sizes):
        self.slots, start = [], 0
        for size in sizes:
            self.slots.append(Slot(start, size))
            start += size
        self.total = start

    def cpu(self):
        return self

    def tolist(self):
        return list(self.slots)

    def nonzero(self):
        return [s for s in self.slots if s.size]


class Recommender(nn.Module):
    def __init__(self, catalogue, width=8):
        super().__init__()
        self.catalogue = catalogue
        self.embed = nn.Embedding(catalogue.total, width)

    def forward(self, local_ids):
        slots = self.catalogue.cpu().nonzero()
        shifted = [local_ids[:, i] + slot.item() for i, slot in enumerate(slots)]
        basket = self.embed(torch.stack(shifted, 1)).sum(1)
        scores = basket @ self.embed.weight.T
        return torch.stack([scores[:, s.numpy()].amax(1) for s in self.catalogue.tolist()], 1)


def make(device="cuda"):
    torch.manual_seed(69)
    model = Recommender(Catalogue([5, 9, 3])).to(device)
    model.requires_grad_(False)
    return {"fn": model, "inputs": lambda: (torch.randint(0, 3, (6, 3), device=device),), "kind": "inference"}
