"""Text tower with a stock transformer encoder and pooled projection."""
import torch
from torch import nn


class TextTower(nn.Module):
    def __init__(self, vocab=97, width=32, depth=2, context=12):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Parameter(torch.randn(context, width) * 0.01)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.project = nn.Linear(width, 16, bias=False)
        causal = torch.full((context, context), float("-inf")).triu(1)
        self.register_buffer("causal", causal, persistent=False)

    def features(self, tokens):
        h = self.token(tokens) + self.position
        return self.blocks(h, mask=self.causal)

    def forward(self, tokens):
        h = self.features(tokens)
        return nn.functional.normalize(self.project(h[:, -1]), dim=-1)


def make(device="cuda"):
    torch.manual_seed(0)
    tower = TextTower().to(device).train()

    def inputs():
        return (torch.randint(0, 97, (4, 12), device=device),)

    return {"fn": tower, "inputs": inputs, "kind": "inference"}
