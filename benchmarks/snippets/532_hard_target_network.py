"""Q-learning step that refreshes its target network from the online one each time."""
import copy

import torch
from torch import nn


def q_net():
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


class DQN:
    def __init__(self, device, gamma=0.98):
        self.online = q_net().to(device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.gamma = gamma
        self.opt = torch.optim.SGD(self.online.parameters(), lr=0.05)

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())

    def learn(self, s, a, r, s2, done):
        with torch.no_grad():
            bootstrap = self.target(s2).amax(dim=1) * (1 - done)
        q = self.online(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(q, r + self.gamma * bootstrap)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.sync()
        return loss.detach()


def make(device="cuda"):
    torch.manual_seed(65)
    dqn = DQN(device)

    def inputs():
        s, s2 = torch.randn(2, 16, 4, device=device)
        a = torch.randint(0, 2, (16,), device=device)
        return s, a, torch.randn(16, device=device), s2, (torch.rand(16, device=device) < 0.1).float()

    return {
        "fn": dqn.learn,
        "inputs": inputs,
        "state": lambda: list(dqn.target.state_dict().values()),
        "kind": "training_step",
    }
