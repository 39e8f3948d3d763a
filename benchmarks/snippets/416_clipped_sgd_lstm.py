"""Character LSTM trained with clipped momentum SGD."""
import itertools

import torch
import torch.nn as nn


class CharLSTM(nn.Module):
    def __init__(self, vocab=40, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.LSTM(dim, dim, num_layers=2, batch_first=True)
        self.out = nn.Linear(dim, vocab)
        self.drop = nn.Dropout(0.2)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.out(self.drop(h))


def groups(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": decay, "weight_decay": 1e-3}, {"params": rest, "weight_decay": 0.0}]


def make(device="cuda"):
    torch.manual_seed(21)
    model = CharLSTM().to(device)
    opt = torch.optim.SGD(groups(model), lr=0.3, momentum=0.9)
    lossf = nn.CrossEntropyLoss(ignore_index=0)

    def step(ids):
        opt.zero_grad(set_to_none=True)
        logits = model(ids[:, :-1])
        loss = lossf(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        params = itertools.chain.from_iterable(g["params"] for g in opt.param_groups)
        norm = nn.utils.clip_grad_norm_(list(params), 1.0)
        opt.step()
        return loss.detach(), norm

    return {
        "fn": step,
        "inputs": lambda: (torch.randint(0, 40, (4, 13), device=device),),
        "state": lambda: list(model.parameters()),
        "kind": "training_step",
    }
