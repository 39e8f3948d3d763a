"""learning-rate-change-has-no-effect: a float rate is a constant of the captured optimizer step."""

import torch


def _step_and_graph(opt: torch.optim.Optimizer) -> torch.cuda.CUDAGraph:
    """One real step, so that the optimizer's state exists, then the capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        opt.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    return graph


def _moved(weight: torch.Tensor, graph: torch.cuda.CUDAGraph) -> float:
    before = weight.detach().clone()
    graph.replay()
    return float((before - weight.detach()).abs().max())


def fails() -> None:
    """The scheduler prints a rate ten times smaller; the update stays as large as it was."""
    weight = torch.zeros(4, device="cuda", requires_grad=True)
    weight.grad = torch.ones_like(weight)
    opt = torch.optim.Adam([weight], lr=1.0, capturable=True)
    graph = _step_and_graph(opt)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.1)
    first = _moved(weight, graph)
    schedule.step()
    assert opt.param_groups[0]["lr"] < 0.2
    assert abs(_moved(weight, graph) - first) < 0.05 * first


def works() -> None:
    """A rate on the device: the scheduler fills the tensor that the graph reads."""
    weight = torch.zeros(4, device="cuda", requires_grad=True)
    weight.grad = torch.ones_like(weight)
    opt = torch.optim.Adam([weight], lr=torch.tensor(1.0, device="cuda"), capturable=True)
    graph = _step_and_graph(opt)
    schedule = torch.optim.lr_scheduler.StepLR(opt, step_size=1, gamma=0.1)
    first = _moved(weight, graph)
    schedule.step()
    second = _moved(weight, graph)
    schedule.step()
    third = _moved(weight, graph)
    assert 0.05 * first < second < 0.2 * first
    assert 0.05 * second < third < 0.2 * second
