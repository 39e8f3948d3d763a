"""Fine-tune a ranking head with a captured step."""

import logging

import torch
import torch.nn.functional as F
from torch import nn

log = logging.getLogger("train")


class Head(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x)[..., 0]


class Step:
    def __init__(self, head, margins, rate=1e-4):
        self.head, self.margins = head, margins
        self.optimizer = torch.optim.AdamW(head.parameters(), lr=rate, capturable=True)
        self.metrics = {}

    def margin(self, scores):
        wanted = torch.tensor(self.margins, device=scores.device)
        return wanted[: scores.shape[1]]

    def record(self, name, value):
        try:
            self.metrics[name] = float(value)
        except Exception as error:
            log.warning("metric %s skipped: %s", name, str(error).splitlines()[0])

    def __call__(self, good, bad):
        self.optimizer.zero_grad(set_to_none=True)
        better, worse = self.head(good), self.head(bad)
        gap = better - worse
        loss = F.relu(1.0 - gap).mean()
        self.record("gap", gap.detach().mean())
        loss = loss + 0.1 * (gap - self.margin(gap)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.head.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()


def capture(step, good, bad):
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step(good, bad)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(good, bad)
    return graph, loss


def main():
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    head = Head().cuda()
    good, bad = torch.randn(2, 64, 8, 512, device="cuda")
    graph, loss = capture(Step(head, [0.1 * place for place in range(8)]), good, bad)
    for _ in range(1000):
        graph.replay()
    print(loss.item())


if __name__ == "__main__":
    main()
