"""Soft actor-critic on stored transitions: twin critics, squashed Gaussian policy, Polyak averages."""
# needs: torchvision
import copy

import torch
from torch.distributions import Independent, Normal, TransformedDistribution
from torch.distributions.transforms import TanhTransform
from torchvision.ops import MLP


def actions(policy, state):
    mean, spread = policy(state).chunk(2, -1)
    base = Independent(Normal(mean, spread.clamp(-5, 2).exp(), validate_args=False), 1, validate_args=False)
    return TransformedDistribution(base, [TanhTransform(cache_size=1)], validate_args=False)


def make(device="cuda"):
    policy, critics = MLP(8, [64, 64, 4]).to(device), torch.nn.ModuleList([MLP(10, [64, 1]), MLP(10, [64, 1])]).to(device)
    targets = copy.deepcopy(critics).requires_grad_(False)
    options = {"lr": 3e-3, "capturable": device != "cpu"}
    actor_optimizer = torch.optim.Adam(policy.parameters(), **options)
    critic_optimizer = torch.optim.Adam(critics.parameters(), **options)

    def update(state, action, reward, following):
        with torch.no_grad():
            chosen = actions(policy, following)
            new = chosen.rsample()
            worst = torch.minimum(*(critic(torch.cat([following, new], -1)) for critic in targets)).squeeze(-1)
            goal = reward + 0.99 * (worst - 0.1 * chosen.log_prob(new))
        taken = torch.cat([state, action], -1)
        loss = sum((critic(taken).squeeze(-1) - goal).square().mean() for critic in critics)
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        drawn = actions(policy, state)
        act = drawn.rsample()
        value = torch.minimum(*(critic(torch.cat([state, act], -1)) for critic in critics)).squeeze(-1)
        actor_optimizer.zero_grad()
        (0.1 * drawn.log_prob(act) - value).mean().backward()
        actor_optimizer.step()
        torch._foreach_lerp_([slow.data for slow in targets.parameters()], [fast.data for fast in critics.parameters()], 0.05)
        return loss.detach()

    def inputs():
        return (torch.randn(32, 8, device=device), torch.rand(32, 2, device=device) * 2 - 1, torch.randn(32, device=device),
                torch.randn(32, 8, device=device))

    return {"fn": update, "inputs": inputs, "kind": "training_step"}
