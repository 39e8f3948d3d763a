"""sparse-gradient-state: momentum of sparse gradients is a new tensor after every step."""

import torch
from torch import nn

DEVICE = "cuda"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randint(0, 16, (4, 3), device=DEVICE),)


def backward(table, ids):
    table.zero_grad(set_to_none=True)
    loss = table(ids).square().sum()
    loss.backward()
    return loss.detach()


class Recommender:
    def __init__(self, *, sparse):
        self.table = nn.Embedding(16, 8, sparse=sparse).to(DEVICE)  # CG306
        self.optimizer = torch.optim.SGD(self.table.parameters(), lr=0.05, momentum=0.9, nesterov=True)  # CG306

    def train_step(self, ids):
        loss = backward(self.table, ids)
        self.optimizer.step()  # CG306
        return loss


words = nn.Embedding(16, 8, sparse=True).to(DEVICE)  # CG306
words_optimizer = torch.optim.SGD(words.parameters(), lr=0.05, momentum=0.9)  # CG306
users = nn.Embedding(16, 8, sparse=True).to(DEVICE)
users_optimizer = torch.optim.SGD(users.parameters(), lr=0.05)
sparse_recommender = Recommender(sparse=True)
dense_recommender = Recommender(sparse=False)


def state():
    return [table.weight for table in (words, users, sparse_recommender.table, dense_recommender.table)]


def bad_momentum_of_words(ids):
    loss = backward(words, ids)
    words_optimizer.step()  # CG306
    return loss


def bad_recommender_step(ids):
    return sparse_recommender.train_step(ids)


def good_sparse_without_momentum(ids):
    loss = backward(users, ids)
    users_optimizer.step()
    return loss


def good_dense_recommender_step(ids):
    return dense_recommender.train_step(ids)
