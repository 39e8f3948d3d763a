"""anonymous-double-backward: a second derivative is taken through a graphed callable."""

import copy

import torch
from torch import nn

DEVICE = "cuda"


def critic():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(DEVICE)


def points():
    return torch.randn(4, 8, device=DEVICE, requires_grad=True)


def close(left, right):
    torch.cuda.synchronize()
    return all(torch.allclose(a, b, atol=1e-3) for a, b in zip(left, right, strict=True))


def penalty(model, x):
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()


def capture_bad_gradient_penalty():
    model = critic()
    graphed = torch.cuda.make_graphed_callables(model, (points(),))
    x = points()
    (slope,) = torch.autograd.grad(graphed(x).sum(), x, create_graph=True)  # CG413
    (slope.norm(dim=1) - 1).square().mean().backward()
    return model[0].weight.grad is not None


class Curvature:
    def __init__(self, model, x):
        self.model = torch.cuda.make_graphed_callables(model, (x,))

    def along(self, x, direction):
        loss = self.model(x).square().mean()
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)  # CG413
        return torch.autograd.grad((slope * direction).sum(), x)[0]


def capture_bad_hessian_vector_product():
    curvature = Curvature(critic(), points())
    x = points()
    return curvature.along(x, torch.ones_like(x)).isfinite().all().item()


def capture_good_first_order_only():
    model = critic()
    reference = copy.deepcopy(model)
    graphed = torch.cuda.make_graphed_callables(model, (points(),))
    x = points()
    return close(torch.autograd.grad(graphed(x).sum(), x), torch.autograd.grad(reference(x).sum(), x))


def capture_good_whole_step_in_one_graph():
    model, x = critic(), points()
    weights = [model[0].weight, model[2].weight]
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            torch.autograd.grad(penalty(model, x), weights)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        grads = torch.autograd.grad(penalty(model, x), weights)
    with torch.no_grad():
        x.copy_(torch.randn_like(x))
    graph.replay()
    return close(grads, torch.autograd.grad(penalty(model, x), weights))


def capture_good_penalty_through_the_eager_module():
    generator = nn.Linear(8, 8).to(DEVICE)
    model, reference = critic(), copy.deepcopy(generator)
    graphed = torch.cuda.make_graphed_callables(generator, (torch.randn(4, 8, device=DEVICE),))
    noise = torch.randn(4, 8, device=DEVICE)
    fake, expected = graphed(noise).detach().requires_grad_(), reference(noise).detach().requires_grad_()
    return close([penalty(model, fake)], [penalty(model, expected)])
