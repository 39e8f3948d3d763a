"""Sample text from a small decoder with a KV cache: python program.py --new 64 --temperature 0.8."""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, WIDTH, HEADS, LAYERS, LONGEST = 128, 64, 4, 4, 64
BATCH, PROMPT, NEW, END = 4, 8, 24, 0


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache):
        batch, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=length > 1)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)))), (k, v)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, tokens, start, caches):
        x = self.tokens(tokens) + self.places.weight[start : start + tokens.shape[1]]
        kept = []
        for layer, cache in zip(self.layers, caches, strict=True):
            x, cache = layer(x, cache)
            kept.append(cache)
        return self.head(self.norm(x[:, -1])), kept


class Sampler:
    def __init__(self, device, temperature=0.9, top=20, new=NEW):
        self.device = torch.device(device)
        self.model = Decoder().to(self.device).eval()
        self.generator = torch.Generator(self.device).manual_seed(1234)
        self.temperature, self.top, self.new = temperature, top, new

    def choose(self, logits, finished):
        """Draw the next token of each row; a row that has ended goes on with END."""
        values, places = (logits / self.temperature).topk(self.top)
        drawn = torch.multinomial(values.softmax(-1), 1, generator=self.generator)
        token = places.gather(1, drawn)[:, 0]
        return torch.where(finished, END, token), logits.log_softmax(-1).gather(1, token[:, None])[:, 0]

    @torch.inference_mode()
    def step(self, prompt):
        """Return the sampled tokens, and the log probability of each row."""
        prompt = prompt.to(self.device)
        logits, caches = self.model(prompt, 0, [None] * LAYERS)
        finished = torch.zeros(len(prompt), dtype=torch.bool, device=self.device)
        score = torch.zeros(len(prompt), device=self.device)
        tokens = []
        for number in range(self.new):
            token, log_probability = self.choose(logits, finished)
            score = score + log_probability * ~finished
            tokens.append(token)
            finished = finished | (token == END)
            if finished.all():
                break
            if number + 1 < self.new:
                logits, caches = self.model(token[:, None], prompt.shape[1] + number, caches)
        return torch.stack(tokens, 1), score

    def state(self):
        return self.model.state_dict()


def batches(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randint(1, VOCAB, (BATCH, PROMPT), generator=generator),) for _ in range(count)]


def build(device):
    return Sampler(device)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20, help="prompts")
    parser.add_argument("--new", type=int, default=NEW)
    parser.add_argument("--temperature", type=float, default=0.9)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    torch.manual_seed(0)
    sampler = Sampler(args.device, args.temperature, new=args.new)
    start, made = time.time(), 0
    for (prompt,) in batches(args.steps, 0):
        tokens, score = sampler.step(prompt)
        made += tokens.numel()
    print(f"{made} tokens, {made / (time.time() - start):.0f} a second, last score {score.mean().item():.2f}")


if __name__ == "__main__":
    main()
