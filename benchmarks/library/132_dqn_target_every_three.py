"""DQN on a timm network: the target is copied every third update."""
# needs: timm
import copy

import timm
import torch


class Learner:
    def __init__(self, device):
        self.online = timm.create_model("test_vit", pretrained=False, num_classes=4, in_chans=2, img_size=32).to(device).train()
        self.target = copy.deepcopy(self.online).eval().requires_grad_(False)
        self.optimizer = torch.optim.SGD(self.online.parameters(), lr=0.02)
        self.updates = 0

    def update(self, frames, actions, rewards, following):
        best = self.target(following).max(-1).values
        value = self.online(frames).gather(1, actions[:, None]).squeeze(1)
        loss = torch.nn.functional.smooth_l1_loss(value, rewards + 0.9 * best)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.updates += 1
        if self.updates % 3 == 0:
            self.target.load_state_dict(self.online.state_dict())
        return loss.detach()


def make(device="cuda"):
    def inputs():
        frames = torch.rand(6, 2, 32, 32, device=device)
        return frames, torch.randint(0, 4, (6,), device=device), torch.randn(6, device=device), frames.roll(1, -1)

    return {"fn": Learner(device).update, "inputs": inputs, "kind": "training_step"}
