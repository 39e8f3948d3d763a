"""Q-learning over a ring of recent transitions."""
import torch
import torch.nn.functional as F
from torch import nn


class Ring:
    def __init__(self, size, obs, device):
        self.size = size
        self.obs = torch.zeros(size, obs, device=device)
        self.act = torch.zeros(size, dtype=torch.long, device=device)
        self.rew = torch.zeros(size, device=device)
        self.nxt = torch.zeros(size, obs, device=device)
        self.head = torch.zeros(1, dtype=torch.long, device=device)
        self.span = torch.arange(4, device=device)

    def write(self, *fields):
        at = (self.head + self.span) % self.size
        for store, value in zip((self.obs, self.act, self.rew, self.nxt), fields):
            store.index_copy_(0, at, value)
        self.head.add_(len(self.span)).remainder_(self.size)

    def draw(self, n):
        pick = torch.randint(0, self.size, (n,), device=self.obs.device)
        return self.obs[pick], self.act[pick], self.rew[pick], self.nxt[pick]


def qnet(obs=6, actions=3):
    return nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, actions))


def make(device="cuda"):
    online, target = qnet().to(device), qnet().to(device).requires_grad_(False)
    ring = Ring(64, 6, device)
    opt = torch.optim.SGD(online.parameters(), lr=0.05)
    pairs = list(zip(target.parameters(), online.parameters()))

    def update(obs, act, rew, nxt):
        ring.write(obs, act, rew, nxt)
        o, a, r, n = ring.draw(32)
        goal = r + 0.95 * target(n).amax(-1)
        loss = F.mse_loss(online(o).gather(1, a[:, None]).squeeze(1), goal.detach())
        opt.zero_grad()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for t, s in pairs:
                t.lerp_(s, 0.1)
        return loss.detach()

    def inputs():
        return (torch.randn(4, 6, device=device), torch.randint(0, 3, (4,), device=device),
                torch.randn(4, device=device), torch.randn(4, 6, device=device))

    state = lambda: [ring.obs, ring.rew, ring.head, *online.parameters(), *target.parameters()]
    return {"fn": update, "inputs": inputs, "state": state, "kind": "training_step"}
