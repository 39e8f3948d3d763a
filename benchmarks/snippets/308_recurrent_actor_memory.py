"""Acting with a recurrent policy that remembers the episode."""
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self, obs, hidden, envs):
        super().__init__()
        self.cell = nn.GRUCell(obs, hidden)
        self.register_buffer("h", torch.zeros(envs, hidden))

    def forward(self, obs, done):
        keep = (1.0 - done).unsqueeze(-1)
        self.h = self.cell(obs, self.h * keep)
        return self.h


class RecurrentActor(nn.Module):
    def __init__(self, obs=10, hidden=32, actions=4, envs=8):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(obs, 24), nn.ELU())
        self.memory = Memory(24, hidden, envs)
        self.logits = nn.Linear(hidden, actions)

    def forward(self, obs, done):
        z = self.memory(self.embed(obs), done)
        return self.logits(z).log_softmax(-1)


def make(device="cuda"):
    actor = RecurrentActor().to(device).eval()

    @torch.no_grad()
    def act(obs, done):
        logp = actor(obs, done)
        return logp.argmax(-1), logp

    def inputs():
        obs = torch.randn(8, 10, device=device) * 2
        done = (torch.rand(8, device=device) < 0.05).float()
        return obs, done

    return {"fn": act, "inputs": inputs, "state": lambda: [actor.memory.h], "kind": "inference"}
