"""Multi-tenant adapter server: every row of the batch picks its low-rank adapter by an index tensor."""
import torch
from torch import nn


class AdapterBank(nn.Module):
    """Low-rank corrections of all tenants, stacked so that a gather selects them."""

    def __init__(self, tenants, dim, rank):
        super().__init__()
        self.tenants = tenants
        self.down = nn.Parameter(0.3 * torch.randn(tenants, dim, rank))
        self.up = nn.Parameter(0.3 * torch.randn(tenants, rank, dim))
        self.register_buffer("energy", torch.ones(tenants))
        self.register_buffer("tenant_ids", torch.arange(tenants))

    def track(self, delta, tenant):
        """Running size of the correction of each tenant that is in the batch."""
        member = (tenant.unsqueeze(0) == self.tenant_ids.unsqueeze(1)).float()
        rows = member.sum(1)
        mean = member @ delta.square().mean(-1) / rows.clamp(min=1)
        rate = 0.3 * (rows > 0)
        self.energy.lerp_(mean, rate)

    def forward(self, x, tenant, strength):
        delta = torch.bmm(torch.bmm(x.unsqueeze(1), self.down[tenant]), self.up[tenant]).squeeze(1)
        self.track(delta, tenant)
        scale = strength / (0.1 + self.energy[tenant].sqrt())
        return delta * scale.unsqueeze(-1)


class SharedPrompts(nn.Module):
    """System prompts that take turns, one per call."""

    def __init__(self, count, dim):
        super().__init__()
        self.count = count
        self.register_buffer("rows", torch.randn(count, dim))
        self.register_buffer("turn", torch.zeros(1, dtype=torch.long))

    def forward(self):
        row = self.rows.index_select(0, self.turn)
        self.turn.add_(1).remainder_(self.count)
        return row


class AdapterServer(nn.Module):
    def __init__(self, tenants=12, dim=32, rank=4, classes=10):
        super().__init__()
        self.prompts = SharedPrompts(7, dim)
        self.base = nn.Linear(dim, dim)
        self.bank = AdapterBank(tenants, dim, rank)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    @torch.no_grad()
    def forward(self, x, tenant, strength):
        x = x + 0.5 * self.prompts()
        h = self.base(x) + self.bank(x, tenant, strength)
        return self.head(torch.relu(self.norm(h)))


def make(device="cuda"):
    torch.manual_seed(107)
    server = AdapterServer().to(device).eval()
    batch = 8

    def inputs():
        x = torch.randn(batch, 32, device=device)
        tenant = torch.randint(0, 12, (batch,), device=device)
        strength = torch.empty(batch, device=device).uniform_(0.2, 2.0)
        return x, tenant, strength

    return {
        "fn": server,
        "inputs": inputs,
        "state": lambda: [server.bank.energy, server.prompts.turn],
        "kind": "inference",
        "warmup": 3,
    }
