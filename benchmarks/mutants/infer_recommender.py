"""Click model with several embedding tables, feature crosses and an exposure bonus for items seldom shown."""
import torch
from torch import nn


class Fields(nn.Module):
    """One table per categorical field."""

    def __init__(self, sizes, dim):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(size, dim) for name, size in sizes.items()})

    def forward(self, user, item, brand, hour):
        rows = [
            self.tables["user"](user),
            self.tables["item"](item),
            self.tables["brand"](brand),
            self.tables["hour"](hour).expand(user.shape[0], -1),
        ]
        return torch.stack(rows, dim=1)


class Crosses(nn.Module):
    """Dot products of all pairs of fields."""

    def __init__(self, fields):
        super().__init__()
        left, right = torch.triu_indices(fields, fields, offset=1)
        self.register_buffer("left", left)
        self.register_buffer("right", right)

    def forward(self, rows):
        return (rows.index_select(1, self.left) * rows.index_select(1, self.right)).sum(-1)


class Exposure(nn.Module):
    """Counts how often each item was scored."""

    def __init__(self, items):
        super().__init__()
        self.register_buffer("counts", torch.zeros(items))

    def bonus(self, item):
        return (1.0 + self.counts).rsqrt()[item]

    def record(self, item):
        self.counts.index_add_(0, item, torch.ones_like(item, dtype=torch.float))


class ClickModel(nn.Module):
    def __init__(self, dim=12, dense=6):
        super().__init__()
        sizes = {"user": 200, "item": 80, "brand": 20, "hour": 24}
        self.fields = Fields(sizes, dim)
        self.crosses = Crosses(len(sizes))
        self.dense = nn.BatchNorm1d(dense)
        self.deep = nn.Sequential(
            nn.Linear(4 * dim + 6 + dense, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 1)
        )

    def forward(self, user, item, brand, hour, dense):
        rows = self.fields(user, item, brand, hour)
        features = torch.cat([rows.flatten(1), self.crosses(rows), self.dense(dense)], dim=-1)
        return self.deep(features).squeeze(-1)


class Ranker:
    def __init__(self, model, exposure, explore=0.5):
        self.model, self.exposure, self.explore = model, exposure, explore

    @torch.no_grad()
    def __call__(self, user, item, brand, hour, dense):
        score = self.model(user, item, brand, hour, dense)
        score = score + self.explore * self.exposure.bonus(item)
        self.exposure.record(item)
        return score, torch.sigmoid(score)


def make(device="cuda"):
    torch.manual_seed(106)
    ranker = Ranker(ClickModel().to(device).eval(), Exposure(80).to(device))

    def inputs():
        n = 40
        user = torch.randint(0, 200, (n,), device=device)
        item = torch.randint(0, 80, (n,), device=device)
        brand = torch.randint(0, 20, (n,), device=device)
        hour = torch.randint(0, 24, (1,), device=device)
        return user, item, brand, hour, 2 * torch.randn(n, 6, device=device) + 1

    return {
        "fn": ranker,
        "inputs": inputs,
        "state": lambda: [ranker.exposure.counts],
        "kind": "inference",
        "warmup": 3,
    }
