"""hooks-before-graphing: make_graphed_callables is given a module that already has hooks."""

import copy

import torch
from torch import nn

DEVICE = "cuda"


def make():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)).to(DEVICE)
    return model, copy.deepcopy(model)


def sample():
    return (torch.randn(4, 8, device=DEVICE),)


def agrees(graphed, reference):
    x = torch.randn(4, 8, device=DEVICE)
    return torch.allclose(graphed(x), reference(x), atol=1e-3)


def keep_shape(module, _args, out):
    module.last_shape = out.shape


def capture_bad_logged_activations():
    model, reference = make()
    model.register_forward_hook(keep_shape)
    return agrees(torch.cuda.make_graphed_callables(model, sample()), reference)  # CG411


class Watched:
    def __init__(self, module):
        self.module = module
        self.handle = module.register_full_backward_hook(self.on_backward)

    def on_backward(self, _module, _grad_input, grad_output):
        self.last = grad_output[0].shape

    def detach(self):
        self.handle.remove()


def capture_bad_backward_hook_in_a_wrapper():
    model, reference = make()
    watched = Watched(model)
    graphed = torch.cuda.make_graphed_callables(watched.module, sample())  # CG411
    return agrees(graphed, reference)


def capture_bad_old_weight_norm():
    layer = nn.utils.weight_norm(nn.Linear(8, 8)).to(DEVICE)
    reference = nn.utils.weight_norm(nn.Linear(8, 8)).to(DEVICE)
    reference.load_state_dict(layer.state_dict())
    return agrees(torch.cuda.make_graphed_callables(layer, sample()), reference)  # CG411


def capture_good_hook_afterwards():
    model, reference = make()
    graphed = torch.cuda.make_graphed_callables(model, sample())
    graphed.register_forward_hook(keep_shape)
    return agrees(graphed, reference) and graphed.last_shape == (4, 8)


def capture_good_hook_removed_before():
    model, reference = make()
    watched = Watched(model)
    watched.detach()
    return agrees(torch.cuda.make_graphed_callables(model, sample()), reference)


def capture_good_hook_on_another_module():
    model, reference = make()
    reference.register_forward_hook(keep_shape)
    return agrees(torch.cuda.make_graphed_callables(model, sample()), reference)


def capture_good_parametrized_weight_norm():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)).to(DEVICE)
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    graphed = torch.cuda.make_graphed_callables(layer, sample())
    return agrees(graphed, lambda x: nn.functional.linear(x, weight, bias))
