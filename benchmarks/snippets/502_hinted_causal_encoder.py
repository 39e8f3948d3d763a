"""Autoregressive encoder over item histories with an explicit attention mask."""
import torch
from torch import nn


class HistoryModel(nn.Module):
    def __init__(self, items=60, width=16, length=9):
        super().__init__()
        self.item = nn.Embedding(items, width)
        self.place = nn.Embedding(length, width)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        self.register_buffer("mask", mask)
        self.register_buffer("places", torch.arange(length))

    def forward(self, history):
        h = self.item(history) + self.place(self.places)
        h = self.encoder(h, mask=self.mask, is_causal=True)
        return h @ self.item.weight.T


def make(device="cuda"):
    torch.manual_seed(77)
    model = HistoryModel().to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(history):
        logits = model(history)[:, :-1]
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), history[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    def inputs():
        return (torch.randint(0, 60, (4, 9), device=device),)

    return {"fn": step, "inputs": inputs, "state": lambda: list(model.parameters()), "kind": "training_step"}
