"""The cache grows by `cat`, the position is a Python number, and sampling draws from a generator of its own.

A static cache, a position on the GPU and a mask make one shape of all tokens. Sampling stays outside of the graph, in the
program's own order of draws, and the stop is read there. A tensor made under inference mode cannot be written outside of it.
"""

import torch
import torch.nn.functional as F
from capturing import captured
from program import BATCH, END, HEADS, LAYERS, LONGEST, WIDTH, Sampler

LIMITS = {"steps": 10, "rounds": 8, "calls": 1, "least": 8}


class Graphed(Sampler):
    def __init__(self, device, **options):
        super().__init__(device, **options)
        shape = (2, LAYERS, BATCH, HEADS, LONGEST, WIDTH // HEADS)
        self.cache = torch.zeros(shape, device=self.device)
        self.token = torch.zeros(BATCH, 1, dtype=torch.long, device=self.device)
        self.position = torch.zeros(1, dtype=torch.long, device=self.device)
        self.places = torch.arange(LONGEST, device=self.device)
        with torch.no_grad():
            self.next = captured(self.one, self.device, [self.cache])

    def one(self):
        """Return the logits behind one token."""
        model, seen = self.model, self.places <= self.position
        x = model.tokens(self.token) + model.places(self.position)
        for number, layer in enumerate(model.layers):
            q, k, v = layer.qkv(layer.norm1(x)).view(BATCH, 1, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            keys, values = self.cache[0, number], self.cache[1, number]
            keys.index_copy_(2, self.position, k)
            values.index_copy_(2, self.position, v)
            mixed = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen[None, None, None])
            x = x + layer.out(mixed.transpose(1, 2).reshape(BATCH, 1, WIDTH))
            x = x + layer.down(F.gelu(layer.up(layer.norm2(x))))
        return model.head(model.norm(x[:, -1]))

    @torch.no_grad()
    def step(self, prompt):
        prompt = prompt.to(self.device)
        logits, caches = self.model(prompt, 0, [None] * LAYERS)
        for number, (keys, values) in enumerate(caches):
            self.cache[0, number, :, :, : prompt.shape[1]] = keys
            self.cache[1, number, :, :, : prompt.shape[1]] = values
        finished = torch.zeros(BATCH, dtype=torch.bool, device=self.device)
        score = torch.zeros(BATCH, device=self.device)
        tokens = []
        self.position.fill_(prompt.shape[1])
        for number in range(self.new):
            token, log_probability = self.choose(logits, finished)
            score = score + log_probability * ~finished
            tokens.append(token)
            finished = finished | (token == END)
            if finished.all():
                break
            if number + 1 < self.new:
                self.token.copy_(token[:, None])
                self.position.fill_(prompt.shape[1] + number)  # wrong: pass
                logits = self.next()
        return torch.stack(tokens, 1), score


def build(device):
    return Graphed(device)
