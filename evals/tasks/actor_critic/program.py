"""Advantage actor-critic on many pendulum carts on the GPU: python program.py --updates 300 --envs 64."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

ENVS, HORIZON, WIDTH, ACTIONS = 32, 8, 48, 3
GAMMA, TRACE, SYNC = 0.98, 0.95, 3


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.actor, self.critic = nn.Linear(WIDTH, ACTIONS), nn.Linear(WIDTH, 1)

    def forward(self, state):
        x = self.body(state)
        return self.actor(x), self.critic(x)[:, 0]


def advance(state, action):
    """One step of the carts: position, speed, angle, spin; returns the state, the reward and whether it fell."""
    place, speed, angle, spin = state.unbind(1)
    force = (action - 1).float() * 6
    spin = spin + 0.05 * (9.8 * angle.sin() - force * angle.cos())
    speed = speed + 0.05 * force
    angle, place = angle + 0.05 * spin, place + 0.05 * speed
    fell = (angle.abs() > 0.6) | (place.abs() > 2.4)
    return torch.stack([place, speed, angle, spin], 1), 1.0 - angle.abs() - 0.1 * place.abs(), fell


class Learner:
    def __init__(self, device, lr=2e-3):
        self.device = torch.device(device)
        self.policy, self.target = Policy().to(self.device), Policy().to(self.device)
        self.target.load_state_dict(self.policy.state_dict())
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=lr)
        self.carts = torch.zeros(ENVS, 4, device=self.device)
        self.count = 0

    def entropy_weight(self):
        return 0.05 * 0.97**self.count

    def step(self, fresh):
        """Roll out HORIZON steps and learn from them; `fresh` has the states in which fallen carts begin again."""
        fresh = fresh.to(self.device)
        log_probabilities, values, rewards, alive, entropies = [], [], [], [], []
        state = self.carts
        for number in range(HORIZON):
            logits, value = self.policy(state)
            choice = Categorical(logits=logits)
            action = choice.sample()
            log_probabilities.append(choice.log_prob(action))
            entropies.append(choice.entropy())
            values.append(value)
            state, reward, fell = advance(state, action)
            state[fell] = fresh[number][fell]
            rewards.append(reward - fell.float())
            alive.append(1 - fell.float())
        self.carts = state
        loss, mean = self.learn(log_probabilities, values, rewards, alive, entropies)
        self.count += 1
        if self.count % SYNC == 0:
            self.target.load_state_dict(self.policy.state_dict())
        return loss, mean

    def learn(self, log_probabilities, values, rewards, alive, entropies):
        with torch.no_grad():
            following = self.target(self.carts)[1]
            advantage, advantages = torch.zeros(ENVS, device=self.device), []
            for number in reversed(range(HORIZON)):
                error = rewards[number] + GAMMA * alive[number] * following - values[number]
                advantage = error + GAMMA * TRACE * alive[number] * advantage
                advantages.insert(0, advantage)
                following = values[number]
            advantages = torch.stack(advantages)
        values = torch.stack(values)
        returns = advantages + values.detach()
        scaled = (advantages - advantages.mean()) / (advantages.std() + 1e-5)
        actor = -(torch.stack(log_probabilities) * scaled).mean()
        loss = actor + 0.5 * F.mse_loss(values, returns) - self.entropy_weight() * torch.stack(entropies).mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), 0.5)
        self.optimizer.step()
        return loss.detach(), torch.stack(rewards).mean()

    def state(self):
        target = {f"target.{name}": value for name, value in self.target.state_dict().items()}
        return {**self.policy.state_dict(), **target, "carts": self.carts}


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return [(0.2 * torch.randn(HORIZON, ENVS, 4, generator=generator),) for _ in range(count)]


def build(device):
    return Learner(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300, help="updates")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    learner = Learner(args.device, args.lr)
    for number, (fresh,) in enumerate(batches(args.steps, 0)):
        loss, reward = learner.step(fresh)
        if number % 50 == 0:
            print(f"update {number} loss {loss.item():.3f} reward {reward.item():.3f}")


if __name__ == "__main__":
    main()
