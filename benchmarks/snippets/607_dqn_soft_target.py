"""Double Q-learning update with a slowly tracking target network."""
import copy

import torch
import torch.nn.functional as F
from torch import nn


def mlp(sizes):
    layers = []
    for a, b in zip(sizes[:-1], sizes[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def polyak(target, online, tau):
    for pt, po in zip(target.parameters(), online.parameters()):
        pt.data = (1.0 - tau) * pt.data + tau * po.data


class DoubleQ:
    def __init__(self, obs, actions, device, gamma=0.97, tau=0.3):
        self.online = mlp([obs, 32, actions]).to(device)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.opt = torch.optim.SGD(self.online.parameters(), lr=0.2)
        self.gamma, self.tau = gamma, tau

    def goal(self, reward, nxt, done):
        with torch.no_grad():
            best = self.online(nxt).argmax(1, keepdim=True)
            value = self.target(nxt).gather(1, best).squeeze(1)
            return reward + self.gamma * (1 - done) * value

    def learn(self, obs, action, reward, nxt, done):
        goal = self.goal(reward, nxt, done)
        q = self.online(obs).gather(1, action).squeeze(1)
        loss = F.mse_loss(q, goal)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.opt.step()
        polyak(self.target, self.online, self.tau)
        return loss.detach(), goal


def make(device="cuda"):
    agent = DoubleQ(5, 3, device)

    def inputs():
        action = torch.randint(0, 3, (32, 1), device=device)
        obs, nxt = torch.randn(2, 32, 5, device=device)
        reward = torch.randn(32, device=device) + action.squeeze(1)
        return obs, action, reward, nxt, (torch.rand(32, device=device) < 0.1).float()

    return {"fn": agent.learn, "inputs": inputs, "kind": "training_step",
            "state": lambda: [*agent.online.parameters(), *agent.target.parameters()]}
