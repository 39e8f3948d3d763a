"""no-sync-has-no-effect-on-replay: whether gradients are exchanged was decided while the step was recorded."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class _Trainer:
    def __init__(self) -> None:
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl", device_id=device)
        torch.manual_seed(0)
        self.net = nn.Linear(64, 8).to(device)
        self.x = torch.randn(16, 64, device=device)
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.ddp = DistributedDataParallel(self.net, device_ids=[device.index])
            for _ in range(11):
                self.ddp.zero_grad(set_to_none=False)
                self.micro_step()
        torch.cuda.current_stream().wait_stream(self.stream)
        torch.cuda.synchronize()

    def micro_step(self) -> None:
        self.ddp(self.x).square().mean().backward()

    def record(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self.micro_step()
        return graph

    def new_input(self, seed: int) -> torch.Tensor:
        """The gradient of this rank alone for a fresh input."""
        torch.manual_seed(10 * seed + dist.get_rank())
        self.x.copy_(torch.randn_like(self.x))
        return torch.autograd.grad(self.net(self.x).square().mean(), self.net.weight)[0]


def fails() -> None:
    """Recorded under no_sync(), replayed without it: the ranks keep their own gradients."""
    trainer = _Trainer()
    with trainer.ddp.no_sync():
        graph = trainer.record()
    for seed in (1, 2):
        own = trainer.new_input(seed)
        trainer.ddp.zero_grad(set_to_none=False)
        graph.replay()
        torch.testing.assert_close(trainer.net.weight.grad, own)
        other = own.clone()
        dist.all_reduce(other)
        assert not torch.allclose(trainer.net.weight.grad, other / 2)
    graph.reset()
    dist.destroy_process_group()


def works() -> None:
    """Two graphs: one that accumulates, one that exchanges."""
    trainer = _Trainer()
    with trainer.ddp.no_sync():
        accumulate = trainer.record()
    exchange = trainer.record()
    for seed in (1, 2):
        trainer.ddp.zero_grad(set_to_none=False)
        want = trainer.new_input(seed)
        accumulate.replay()
        want = want + trainer.new_input(seed + 5)
        exchange.replay()
        dist.all_reduce(want)
        torch.testing.assert_close(trainer.net.weight.grad, want / 2)
    accumulate.reset()
    exchange.reset()
    dist.destroy_process_group()
