"""graphed-after-ddp: make_graphed_callables gets a module that DDP has wrapped already."""

# needs: gpus=2
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def start():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    net, twin = nn.Linear(64, 8).to(device), nn.Linear(64, 8).to(device)
    twin.load_state_dict(net.state_dict())
    return net, twin, torch.randn(16, 64, device=device)


def averaged(model, twin, x):
    """Whether the gradients of a step are averaged over the ranks; ends the process group."""
    right = []
    for _ in range(2):
        x = torch.randn_like(x) + dist.get_rank()
        model.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        (want,) = torch.autograd.grad(twin(x).square().mean(), twin.weight)
        dist.all_reduce(want)
        got = next(model.parameters()).grad
        right.append(torch.allclose(got, want / 2, rtol=1e-3, atol=1e-5))
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return all(right)


def accelerate(module, x):
    if x.is_cuda:
        module = torch.cuda.make_graphed_callables(module, (x.clone(),))  # CG708
    return module


class Trainer:
    def __init__(self, net, x):
        self.sample = x
        self.model = DistributedDataParallel(net, device_ids=[x.device.index])

    def prepare(self):
        self.model = torch.cuda.make_graphed_callables(self.model, (self.sample,), num_warmup_iters=3)  # CG708
        return self.model


def capture_bad_wrapped_first():
    net, twin, x = start()
    model = accelerate(DistributedDataParallel(net, device_ids=[x.device.index]), x)
    return averaged(model, twin, x)


def capture_bad_prepared_by_trainer():
    net, twin, x = start()
    return averaged(Trainer(net, x).prepare(), twin, x)


def capture_good_graphed_first():
    net, twin, x = start()
    net = torch.cuda.make_graphed_callables(net, (x.clone(),), num_warmup_iters=11)
    model = DistributedDataParallel(net, device_ids=[x.device.index])
    return averaged(model, twin, x)


def capture_good_teacher_beside_ddp():
    net, twin, x = start()
    model = DistributedDataParallel(net, device_ids=[x.device.index])
    teacher = nn.Linear(64, 8).to(x.device).requires_grad_(False)
    want = nn.functional.linear(x, teacher.weight, teacher.bias)
    teacher = torch.cuda.make_graphed_callables(teacher, (x.clone(),))
    same = torch.allclose(teacher(x), want, rtol=1e-3, atol=1e-4)
    return averaged(model, twin, x) and same
