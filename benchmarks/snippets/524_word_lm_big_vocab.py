"""Small word-level language model with an output layer made for large vocabularies."""
import torch
from torch import nn


class WordLM(nn.Module):
    def __init__(self, vocab=200, width=24):
        super().__init__()
        self.encode = nn.Embedding(vocab, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.decode = nn.AdaptiveLogSoftmaxWithLoss(width, vocab, cutoffs=[20, 80], div_value=2.0)

    def hidden(self, tokens):
        out, _ = self.rnn(self.encode(tokens))
        return out.reshape(-1, out.size(-1))

    def score(self, tokens, targets):
        result = self.decode(self.hidden(tokens), targets.reshape(-1))
        return result.output.view_as(targets), result.loss


class Scorer:
    """Ranks candidate sentences by log-likelihood."""

    def __init__(self, lm):
        self.lm = lm.eval()

    @torch.no_grad()
    def __call__(self, tokens, targets):
        logp, _ = self.lm.score(tokens, targets)
        return logp.sum(dim=1)


def make(device="cuda"):
    torch.manual_seed(2)
    scorer = Scorer(WordLM().to(device))

    def inputs():
        text = torch.randint(0, 200, (4, 11), device=device)
        return text[:, :-1].contiguous(), text[:, 1:].contiguous()

    return {"fn": scorer, "inputs": inputs, "kind": "inference"}
