"""uncapturable-optimizer: LBFGS, Adafactor and SparseAdam decide or count on the CPU, and no flag changes that."""

import torch
from torch import nn
from torch.optim import Adafactor

DEVICE = "cuda"


def inputs():
    """A batch of rows and of the words that belong to them."""
    return torch.randn(16, 8, device=DEVICE), torch.randint(0, 12, (16,), device=DEVICE)


model = nn.Linear(8, 8).to(DEVICE)
words = nn.Embedding(12, 8, sparse=True).to(DEVICE)


def backward(x):
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss.detach()


def state():
    return [p.detach() for p in model.parameters()]


lbfgs = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2)  # CG236


def bad_second_order_step(x, ids):
    lbfgs.step(lambda: backward(x))  # CG236
    return x * ids[:, None]


class Finetuner:
    def __init__(self):
        self.optimizer = Adafactor(model.parameters(), lr=1e-2)  # CG236

    def apply(self):
        self.optimizer.step()  # CG236

    def fit(self, x):
        loss = backward(x)
        self.apply()
        return loss


finetuner = Finetuner()


def bad_factored_moments(x, ids):
    return finetuner.fit(x) + ids.sum()


rows = torch.optim.SparseAdam(words.parameters(), lr=1e-2)  # CG236


def bad_sparse_rows(x, ids):
    words.zero_grad()
    loss = (words(ids) - x).square().mean()
    loss.backward()
    rows.step()  # CG236
    return loss.detach()


adagrad = torch.optim.Adagrad(model.parameters(), lr=1e-2)


def good_adagrad_without_decay(x, ids):
    loss = backward(x)
    adagrad.step()
    return loss + ids.sum()


sgd = torch.optim.SGD(model.parameters(), lr=0.1)


def good_closure_of_sgd(x, ids):
    loss = sgd.step(lambda: backward(x))
    return loss + ids.sum()


def good_eager_step_follows_later(x, ids):
    loss = backward(x)
    return loss + ids.sum(), [p.grad for p in model.parameters()]
