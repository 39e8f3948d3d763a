"""The entropy weight and the target's turn come from a Python counter; sampling checks its arguments on the host.

`Categorical` reads the truth of a check, and `multinomial` may; what it draws is an exponential race, which a graph can do
itself. A boolean mask in an assignment needs sizes: `where`. The carts go on from one update to the next, in place.
"""

import torch
from capturing import captured, optimizer_tensors
from program import ENVS, HORIZON, SYNC, Learner, advance
from torch.distributions import Categorical


class Graphed(Learner):
    def __init__(self, device, lr=2e-3):
        super().__init__(device, lr)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=lr, capturable=self.device.type == "cuda")
        self.weight = torch.full((), 0.05, device=self.device)
        self.fresh = torch.zeros(HORIZON, ENVS, 4, device=self.device)
        changed = [*self.policy.parameters(), self.carts]
        self.replay = captured(self.whole, self.device, changed, lambda: optimizer_tensors(self.optimizer))

    def entropy_weight(self):
        return self.weight

    def whole(self):
        log_probabilities, values, rewards, alive, entropies = [], [], [], [], []
        kept, state = self.carts, self.carts.clone()
        for number in range(HORIZON):
            logits, value = self.policy(state)
            choice = Categorical(logits=logits, validate_args=False)
            action = (choice.probs.detach() / torch.empty_like(logits).exponential_()).argmax(-1)
            log_probabilities.append(choice.log_prob(action))
            entropies.append(choice.entropy())
            values.append(value)
            state, reward, fell = advance(state, action)
            state = torch.where(fell[:, None], self.fresh[number], state)
            rewards.append(reward - fell.float())
            alive.append(1 - fell.float())
        kept.copy_(state)
        return self.learn(log_probabilities, values, rewards, alive, entropies)

    def step(self, fresh):
        self.fresh.copy_(fresh)
        self.weight.fill_(super().entropy_weight())
        loss, mean = self.replay()
        self.count += 1
        if self.count % SYNC == 0:
            self.target.load_state_dict(self.policy.state_dict())  # wrong: pass
        return loss, mean


def build(device):
    return Graphed(device)
