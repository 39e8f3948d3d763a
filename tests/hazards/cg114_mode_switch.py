"""mode-switch: train, eval and requires_grad_ in the region act at capture only."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=DEVICE),)


def model():
    return nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1)).to(DEVICE)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Linear(8, 8)
        self.critic = nn.Linear(8, 1)

    def actor_loss(self, x):
        self.critic.requires_grad_(False)  # CG114
        self.actor.zero_grad(set_to_none=True)
        loss = -self.critic(self.actor(x)).mean()
        loss.backward()
        self.critic.requires_grad_(True)  # CG114
        return loss.detach(), self.actor.weight.grad


class Coach:
    def __init__(self):
        self.net = model().eval()

    def train(self, x):
        return self.net(x) * 2


teacher = model()
agent = ActorCritic().to(DEVICE)
student = model().eval().requires_grad_(False)
coach = Coach()


def bad_teacher_in_eval_mode(x):
    with torch.no_grad():
        teacher.eval()  # CG114
        targets = teacher(x)
        teacher.train()  # CG114
    return targets


def bad_frozen_critic(x):
    return agent.actor_loss(x)


def good_mode_set_before(x):
    return student(x)


def good_reading_the_flag(x):
    if student.training:
        x = x * 2
    return student(x)


def good_gradient_of_an_input(x):
    x = x.detach().requires_grad_()
    (slope,) = torch.autograd.grad(student(x).sum(), x)
    return slope


def good_method_called_train(x):
    with torch.no_grad():
        return coach.train(x)
