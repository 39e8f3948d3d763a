"""REINFORCE with a learned baseline on a torchvision MLP."""
# needs: torchvision
import torch
from torch.distributions import Categorical
from torchvision.ops import MLP


def make(device="cuda"):
    policy, baseline = MLP(6, [32, 5]).to(device), MLP(6, [32, 1]).to(device)
    optimizer = torch.optim.SGD([*policy.parameters(), *baseline.parameters()], lr=0.02)

    def update(states, returns):
        choice = Categorical(logits=policy(states))
        actions = choice.sample()
        advantage = returns - baseline(states).squeeze(-1)
        gain = (choice.log_prob(actions) * advantage.detach()).mean() + 0.01 * choice.entropy().mean()
        loss = advantage.square().mean() - gain
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": update, "inputs": lambda: (torch.randn(40, 6, device=device), torch.randn(40, device=device)),
            "kind": "training_step"}
