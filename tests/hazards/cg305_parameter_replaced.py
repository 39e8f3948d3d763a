"""parameter-replaced: after the capture the module gets other tensors, and the graph keeps reading the old memory."""

import torch
from torch import nn

DEVICE = "cuda"


def checkpoint(seed):
    torch.manual_seed(seed)
    return {name: value.to(DEVICE) for name, value in nn.Linear(16, 8).state_dict().items()}


class Service:
    """A model and its graph."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Linear(16, 8).to(DEVICE).requires_grad_(False)
        self.x = torch.randn(4, 16, device=DEVICE)
        self.record()

    def record(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.model(self.x)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.out = self.model(self.x)

    def agrees(self):
        self.x.normal_()
        self.graph.replay()
        want = self.model(self.x.to(self.model.weight.dtype))
        return torch.allclose(self.out, want.to(self.out.dtype), rtol=1e-2, atol=1e-2)

    def new_version(self, weights):
        self.model.load_state_dict(weights, assign=True)  # CG305

    def merge_adapter(self, delta):
        self.model.weight = nn.Parameter(self.model.weight + delta, requires_grad=False)  # CG305

    def merge_adapter_in_place(self, delta):
        self.model.weight.data.add_(delta)


def capture_bad_checkpoint_assigned():
    service = Service()
    service.new_version(checkpoint(1))
    return service.agrees()


def capture_bad_adapter_merged():
    service = Service()
    service.merge_adapter(torch.randn(8, 16, device=DEVICE))
    return service.agrees()


def capture_bad_averaged_weights_swapped_in():
    service = Service()
    average = [parameter.mul(0.5) for parameter in service.model.parameters()]
    for parameter, value in zip(service.model.parameters(), average, strict=True):
        parameter.data = value  # CG305
    return service.agrees()


def capture_bad_precision_changed():
    service = Service()
    service.model.to(torch.bfloat16)  # CG305
    service.model.load_state_dict(checkpoint(1))
    return service.agrees()


def capture_good_checkpoint_copied():
    service = Service()
    for seed in (1, 2):
        service.model.load_state_dict(checkpoint(seed))
    return service.agrees()


def capture_good_adapter_merged_in_place():
    service = Service()
    service.merge_adapter_in_place(torch.randn(8, 16, device=DEVICE))
    return service.agrees()


def capture_good_recorded_anew():
    service = Service()
    service.model.load_state_dict(checkpoint(1), assign=True)
    service.record()
    return service.agrees()


def capture_good_already_there():
    service = Service()
    service.model.to(DEVICE).eval().float()
    service.model.load_state_dict(checkpoint(1))
    return service.agrees()
