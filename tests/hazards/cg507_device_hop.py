"""device-hop: the region moves tensors to a second GPU, whose stream takes no part in the capture."""

# needs: gpus=2
import torch
from torch import nn

FIRST, SECOND = "cuda:0", "cuda:1"


def inputs():
    """Fresh arguments of the captured functions, one call for each step."""
    return (torch.randn(4, 8, device=FIRST),)


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(8, 8).to(FIRST)
        self.back = nn.Linear(8, 8).to(SECOND)

    def forward(self, x):
        hidden = self.front(x).relu()
        hidden = hidden.to(SECOND)  # CG507
        return self.back(hidden)


pipeline = Pipeline().requires_grad_(False)


def bad_layers_on_two_gpus(x):
    return pipeline(x)


mirror = torch.zeros(4, 8, device=SECOND)


def publish(t):
    mirror.copy_(t)  # CG507
    return t


def bad_copy_to_a_mirror(x):
    return publish(x.tanh())


def bad_result_handed_on(x):
    scores = x.softmax(-1)
    return scores.cuda(1)  # CG507


front = nn.Linear(8, 8).to(FIRST).requires_grad_(False)
same_gpu = torch.zeros(4, 8, device=FIRST)


def good_one_stage_per_graph(x):
    return front(x).relu()


def good_already_there(x):
    hidden = front(x).to(FIRST)
    return hidden.to(x.device).cuda(0)


def good_dtype_only(x):
    return front(x).to(torch.float64).to(torch.float32)


def good_copy_on_the_same_gpu(x):
    same_gpu.copy_(x)
    with torch.cuda.device(x.device):
        return same_gpu * 2
