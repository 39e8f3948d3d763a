"""Serve a tagger: a CUDA graph for each batch size, smaller batches are padded to the next one."""

import argparse

import torch
from torch import nn

SIZES = (1, 2, 4, 8, 16, 32, 64)
LENGTH, WIDTH, TAGS = 512, 1024, 9


class Tagger(nn.Module):
    def __init__(self, vocabulary=30000, layers=12):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, TAGS)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))


class Server:
    def __init__(self, model):
        self.model = model.cuda().half().eval()
        self.inputs, self.outputs, self.graphs = {}, {}, {}
        for size in SIZES:
            self.capture(size)
            print(f"captured batch {size}: {torch.cuda.memory_reserved() / 2**30:.2f} GiB reserved", flush=True)

    @torch.no_grad()
    def capture(self, size):
        self.inputs[size] = torch.zeros(size, LENGTH, dtype=torch.long, device="cuda")
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.inputs[size])
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.outputs[size] = self.model(self.inputs[size])
        self.graphs[size] = graph

    def __call__(self, tokens):
        size = next(size for size in SIZES if size >= len(tokens))
        self.inputs[size].zero_()
        self.inputs[size][: len(tokens)].copy_(tokens)
        self.graphs[size].replay()
        return self.outputs[size][: len(tokens)].argmax(-1).cpu()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=100)
    args = parser.parse_args()
    server = Server(Tagger())
    for _ in range(args.requests):
        server(torch.randint(30000, (int(torch.randint(1, 65, ())), LENGTH)))


if __name__ == "__main__":
    main()
