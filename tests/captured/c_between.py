"""What a program does to tensors between the calls of the target: an optimizer, a mask of its own, a cache that it empties."""

import torch
from torch import nn


class Average:
    """An average of weights that the model goes on from, with a decay that changes from call to call."""

    def __init__(self, model: nn.Module) -> None:
        self.weights = [weight.detach().clone() for weight in model.parameters()]

    @torch.no_grad()
    def update(self, model: nn.Module, decay: float) -> None:
        for mean, weight in zip(self.weights, model.parameters(), strict=True):
            mean.lerp_(weight, 1 - decay)
            weight.copy_(mean)


class Masked(nn.Module):
    """A layer with a mask that others set."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)
        self.mask = torch.ones(32, device="cuda")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.mask


class Cached(nn.Module):
    """A layer that adds up what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)
        self.register_buffer("seen", torch.zeros(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.mean(0)
        return self.layer(x) + self.seen


class Served(nn.Module):
    """A layer whose weights a training loop renews."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu()


class Behind(nn.Module):
    """Such a layer, renewed in place."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(32, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu()


def renew(served: nn.Module, model: nn.Module, *, in_place: bool) -> None:
    for weight, newer in zip(served.parameters(), model.parameters(), strict=True):
        if in_place:
            weight.data.copy_(newer)
        else:
            weight.data = newer.detach().clone()


def main() -> None:
    torch.manual_seed(0)
    model, masked, cached = nn.Linear(32, 32).cuda(), Masked().cuda(), Cached().cuda()
    average, served, behind = Average(model), Served().cuda(), Behind().cuda()
    optimizer = torch.optim.SGD([*model.parameters(), *masked.parameters(), *cached.parameters()], lr=0.5)
    for step in range(40):
        x = torch.randn(16, 32, device="cuda")
        masked.mask = (torch.rand(32, device="cuda") < 0.7).float()
        cached.seen.zero_()
        loss = (model(x) - masked(x) + cached(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model, (step / 40) ** 2)
        renew(served, model, in_place=False)
        renew(behind, model, in_place=True)
        with torch.no_grad():
            served(x)
            behind(x)


if __name__ == "__main__":
    main()
