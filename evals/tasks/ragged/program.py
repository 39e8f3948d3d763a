"""Train an intent classifier on utterances of different lengths: python program.py --steps 300."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, LONGEST, BATCH, WIDTH, HEADS, LAYERS, INTENTS = 200, 32, 12, 48, 4, 3, 7


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.ReLU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, valid):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=valid[:, None, None, :])
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.mlp(self.norm2(x))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, INTENTS)

    def forward(self, tokens, valid):
        x = self.tokens(tokens) + self.places.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, valid)
        weights = valid[:, :, None].to(x.dtype)
        return self.head((self.norm(x) * weights).sum(1) / weights.sum(1))


class Trainer:
    def __init__(self, device, lr=2e-3):
        self.device = torch.device(device)
        self.model = Classifier().to(self.device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)

    def step(self, tokens, lengths, intents):
        tokens, lengths, intents = tokens.to(self.device), lengths.to(self.device), intents.to(self.device)
        valid = torch.arange(tokens.shape[1], device=self.device) < lengths[:, None]
        logits = self.model(tokens, valid)
        loss = F.cross_entropy(logits, intents)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach(), logits.detach()

    def state(self):
        return self.model.state_dict()


def batches(count, seed):
    """Each batch is padded to its longest utterance; the last one of an epoch of six has fewer."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for number in range(count):
        size = BATCH if number % 6 != 5 else int(torch.randint(1, BATCH, (), generator=generator))
        longest = int(torch.randint(5, LONGEST + 1, (), generator=generator))
        lengths = torch.randint(3, longest + 1, (size,), generator=generator)
        lengths[0] = longest
        intents = torch.randint(INTENTS, (size,), generator=generator)
        tokens = torch.randint(1, VOCAB, (size, longest), generator=generator)
        tokens[:, 1] = 20 * intents + tokens[:, 1] % 5
        tokens[torch.arange(longest) >= lengths[:, None]] = 0
        made.append((tokens, lengths, intents))
    return made


def build(device):
    return Trainer(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    trainer = Trainer(args.device, args.lr)
    for number, batch in enumerate(batches(args.steps, 0)):
        loss, logits = trainer.step(*batch)
        if number % 50 == 0:
            hits = (logits.argmax(1).cpu() == batch[2]).float().mean()
            print(f"step {number} loss {loss.item():.3f} accuracy {hits:.2f}")


if __name__ == "__main__":
    main()
