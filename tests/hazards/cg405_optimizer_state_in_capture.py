"""optimizer-state-in-capture: the first step of the optimizer is the captured one, so its state starts anew at each replay."""

import copy

import torch
from torch import nn

DEVICE = "cuda"
ROUNDS = 5


def twins():
    model = nn.Linear(8, 8).to(DEVICE)
    return model, copy.deepcopy(model)


def loss_and_backward(model, opt, x):
    opt.zero_grad(set_to_none=True)
    model(x).square().sum().backward()


def same(model, twin):
    torch.cuda.synchronize()
    return all(torch.allclose(a, b, atol=1e-4) for a, b in zip(model.parameters(), twin.parameters(), strict=True))


def replays_agree(model, twin, twin_opt, graph, static_x):
    for _ in range(ROUNDS):
        batch = torch.randn(16, 8, device=DEVICE)
        static_x.copy_(batch)
        graph.replay()
        loss_and_backward(twin, twin_opt, batch)
        twin_opt.step()
    return same(model, twin)


def capture_bad_adam_first_step():
    model, twin = twins()
    opt = torch.optim.Adam(model.parameters(), lr=0.05, capturable=True)
    twin_opt = torch.optim.Adam(twin.parameters(), lr=0.05, capturable=True)
    static_x, stream = torch.randn(16, 8, device=DEVICE), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            loss_and_backward(model, opt, static_x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        loss_and_backward(model, opt, static_x)
        opt.step()  # CG405
    return replays_agree(model, twin, twin_opt, graph, static_x)


class Trainer:
    def __init__(self, make_opt, *, warm):
        self.model, self.twin = twins()
        self.opt, self.twin_opt = make_opt(self.model.parameters()), make_opt(self.twin.parameters())
        self.x = torch.randn(16, 8, device=DEVICE)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            loss_and_backward(self.model, self.opt, self.x)
            if warm:
                self.opt.step()
        torch.cuda.current_stream().wait_stream(self.stream)
        if warm:
            loss_and_backward(self.twin, self.twin_opt, self.x)
            self.twin_opt.step()

    def agrees(self, graph):
        return replays_agree(self.model, self.twin, self.twin_opt, graph, self.x)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=0.05, capturable=True)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def plain_sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01)


def capture_bad_momentum_first_step():
    trainer = Trainer(momentum, warm=False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=trainer.stream):
        loss_and_backward(trainer.model, trainer.opt, trainer.x)
        trainer.opt.step()  # CG405
    return trainer.agrees(graph)


def capture_good_adam_warmed():
    trainer = Trainer(adam, warm=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=trainer.stream):
        loss_and_backward(trainer.model, trainer.opt, trainer.x)
        trainer.opt.step()
    return trainer.agrees(graph)


def capture_good_sgd_has_no_state():
    trainer = Trainer(plain_sgd, warm=False)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=trainer.stream):
        loss_and_backward(trainer.model, trainer.opt, trainer.x)
        trainer.opt.step()
    return trainer.agrees(graph)
