"""Recurrent policy that carries its memory from one observation to the next."""
import torch
import torch.nn as nn


class Memory(nn.Module):
    def __init__(self, obs, hidden, batch):
        super().__init__()
        self.cell = nn.GRUCell(obs, hidden)
        self.register_buffer("h", torch.zeros(batch, hidden))

    def reset(self):
        self.h.zero_()

    def advance(self, obs):
        self.h = self.cell(obs, self.h)
        return self.h


class Controller(nn.Module):
    def __init__(self, obs=7, hidden=24, actions=3, batch=5):
        super().__init__()
        self.memory = Memory(obs, hidden, batch)
        self.pi = nn.Linear(hidden, actions)
        self.v = nn.Linear(hidden, 1)

    def forward(self, obs):
        h = self.memory.advance(obs)
        return self.pi(h).log_softmax(-1), self.v(h).squeeze(-1)


def make(device="cuda"):
    torch.manual_seed(66)
    policy = Controller().to(device).eval()
    policy.memory.reset()

    @torch.no_grad()
    def act(obs):
        logp, value = policy(obs)
        return logp.argmax(-1), logp, value

    def inputs():
        return (torch.randn(5, 7, device=device),)

    return {"fn": act, "inputs": inputs, "state": lambda: [policy.memory.h], "kind": "inference"}
