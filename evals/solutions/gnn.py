"""Nodes and edges differ in each batch, and three lines read sizes from the GPU: two masks and `bincount`.

Padded edges have to begin and end at a padded node: with index 0 they are messages to a real one. Losses and hits are weighted
sums in the place of masks, and degrees are sums of ones. `index_add` adds atomically: eager itself does not repeat its bits.
"""

import torch
import torch.nn.functional as F
from capturing import captured, optimizer_tensors
from program import FEATURES, MOST_EDGES, MOST_NODES, Trainer


class Graphed(Trainer):
    def __init__(self, device, lr=3e-3):
        super().__init__(device, lr)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, capturable=self.device.type == "cuda")
        self.x = torch.zeros(MOST_NODES + 1, FEATURES, device=self.device)
        self.edges = torch.full((2, MOST_EDGES), MOST_NODES, device=self.device)
        self.labels = torch.full((MOST_NODES + 1,), -100, device=self.device)
        self.labels[0] = 0
        made = lambda: optimizer_tensors(self.optimizer)
        self.replay = captured(self.whole, self.device, list(self.model.parameters()), made)

    def whole(self):
        source, target = self.edges
        ones = torch.ones(MOST_EDGES, device=self.device)
        degree = torch.zeros(MOST_NODES + 1, device=self.device).index_add(0, target, ones).clamp(min=1)[:, None]
        x = self.model.embed(self.x)
        for layer in self.model.layers:
            received = torch.zeros_like(x).index_add(0, target, layer.message(x)[source])
            x = x + F.relu(layer.norm(layer.own(x) + received / degree))
        logits = self.model.head(x)
        loss = F.cross_entropy(logits, self.labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        hits = (logits.argmax(1) == self.labels).sum() / (self.labels >= 0).sum()
        return loss.detach(), hits, logits.detach()

    def step(self, x, edges, labels):
        nodes, count = len(x), edges.shape[1]
        self.x.zero_()
        self.x[:nodes] = x.to(self.device)
        self.edges.fill_(MOST_NODES)  # wrong: self.edges.fill_(0)
        self.edges[:, :count] = edges.to(self.device)
        self.labels.fill_(-100)
        self.labels[:nodes] = torch.where(labels >= 0, labels, -100).to(self.device)
        loss, hits, logits = self.replay()
        return loss, hits, logits[:nodes]


def build(device):
    return Graphed(device)
