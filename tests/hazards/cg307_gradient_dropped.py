"""gradient-dropped: gradients that a captured backward writes are set to None between replays, or never zeroed."""

import torch
from torch import nn

DEVICE = "cuda"


class Trainer:
    """Forward and backward in a graph, the optimizer beside it, and an eager twin."""

    def __init__(self, lr=0.1):
        torch.manual_seed(0)
        self.model = nn.Linear(16, 8).to(DEVICE)
        self.twin = nn.Linear(16, 8).to(DEVICE)
        self.twin.load_state_dict(self.model.state_dict())
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr)
        self.twin_optimizer = torch.optim.SGD(self.twin.parameters(), lr=lr)
        self.x = torch.randn(4, 16, device=DEVICE)
        self.graph = torch.cuda.CUDAGraph()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.x).square().mean().backward()
        torch.cuda.current_stream().wait_stream(side)

    def record(self):
        with torch.cuda.graph(self.graph):
            self.model(self.x).square().mean().backward()

    def clear(self):
        for parameter in self.model.parameters():
            parameter.grad = None  # CG307

    def agrees(self):
        """One step of both: whether they have the same weights afterwards."""
        self.x.normal_()
        self.graph.replay()
        self.optimizer.step()
        self.twin_optimizer.zero_grad()
        self.twin(self.x).square().mean().backward()
        self.twin_optimizer.step()
        return torch.allclose(self.model.weight, self.twin.weight, rtol=1e-4, atol=1e-5)


def capture_bad_zero_grad_before_replay():
    trainer = Trainer()
    trainer.optimizer.zero_grad()
    trainer.record()
    right = []
    for _ in range(3):
        trainer.optimizer.zero_grad()  # CG307
        right.append(trainer.agrees())
    return all(right)


def capture_bad_none_after_step():
    trainer = Trainer()
    trainer.model.zero_grad(set_to_none=True)
    trainer.record()
    right = []
    for _ in range(3):
        right.append(trainer.agrees())
        trainer.clear()
    return all(right)


def capture_bad_gradients_of_warm_up_kept():
    trainer = Trainer()
    with torch.cuda.graph(trainer.graph):
        trainer.model(trainer.x).square().mean().backward()  # CG307
    return all([trainer.agrees() for _ in range(3)])


def capture_good_none_once_before_capture():
    trainer = Trainer()
    trainer.optimizer.zero_grad(set_to_none=True)
    trainer.record()
    return all([trainer.agrees() for _ in range(3)])


def capture_good_zeroed_in_place_between():
    trainer = Trainer()
    trainer.record()
    right = []
    for _ in range(3):
        trainer.optimizer.zero_grad(set_to_none=False)
        right.append(trainer.agrees())
    return all(right)


def capture_good_zeroed_inside():
    trainer = Trainer()
    with torch.cuda.graph(trainer.graph):
        trainer.model.zero_grad(set_to_none=False)
        trainer.model(trainer.x).square().mean().backward()
    return all([trainer.agrees() for _ in range(3)])


def capture_good_gradients_of_another_model():
    trainer = Trainer()
    trainer.optimizer.zero_grad()
    trainer.record()
    right = []
    for _ in range(3):
        trainer.twin.zero_grad()
        right.append(trainer.agrees())
    return all(right)
