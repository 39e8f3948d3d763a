"""Each batch has another shape: pad to a few lengths and to the full batch, with a graph for each length.

The loss is a mean over utterances, so padded rows must not count; a row without any valid key makes attention NaN, whose
gradient reaches the weights even where its loss is masked. The graphs share a memory pool, and the warm-up of each is undone.
"""

import functools

import torch
import torch.nn.functional as F
from capturing import captured, optimizer_tensors
from program import BATCH, LONGEST, Trainer

BUCKETS = (8, 16, 24, LONGEST)


class Graphed(Trainer):
    def __init__(self, device, lr=2e-3):
        super().__init__(device, lr)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr, capturable=self.device.type == "cuda")
        self.graphs, pool = {}, None
        for length in reversed(BUCKETS):  # the largest first: the others fit into its memory
            given = [
                torch.zeros(BATCH, length, dtype=torch.long, device=self.device),
                torch.ones(BATCH, dtype=torch.long, device=self.device),
                torch.full((BATCH,), -100, dtype=torch.long, device=self.device),
            ]
            given[2][0] = 0
            made = lambda: optimizer_tensors(self.optimizer)
            step = functools.partial(self.whole, *given)
            replay = captured(step, self.device, list(self.model.parameters()), made, pool)
            pool = getattr(replay, "pool", None)
            self.graphs[length] = (given, replay)

    def whole(self, tokens, lengths, intents):
        valid = torch.arange(tokens.shape[1], device=self.device) < lengths[:, None]
        logits = self.model(tokens, valid)
        loss = F.cross_entropy(logits, intents)  # the mean over rows whose label is not -100
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), logits.detach()

    def step(self, tokens, lengths, intents):
        count, length = tokens.shape
        given, replay = self.graphs[next(size for size in BUCKETS if size >= length)]
        given[0].zero_()
        given[0][:count, :length] = tokens.to(self.device)
        given[1].fill_(1)  # a padded row has one valid key
        given[1][:count] = lengths.to(self.device)
        given[2].fill_(-100)  # wrong: given[2].fill_(0)
        given[2][:count] = intents.to(self.device)
        loss, logits = replay()
        return loss, logits[:count]


def build(device):
    return Graphed(device)
