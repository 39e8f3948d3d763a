"""cpu-work-not-repeated: counters, lists and schedules in the captured code ran once, at capture."""

import torch


def fails() -> None:
    """Three replays, one entry in the history."""
    x = torch.ones(4, device="cuda")
    steps, history = 0, []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x.sum()
        steps += 1
        history.append(out)
    for _ in range(3):
        graph.replay()
    assert steps == 1
    assert len(history) == 1


def works() -> None:
    """What must repeat is a tensor operation in the graph, or Python after the replay."""
    x = torch.ones(4, device="cuda")
    steps = torch.zeros((), dtype=torch.int64, device="cuda")
    history = []
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = x.sum()
        steps.add_(1)
    for value in (1.0, 2.0, 3.0):
        x.fill_(value)
        graph.replay()
        history.append(out.clone())
    assert steps.item() == 3
    assert [each.item() for each in history] == [4.0, 8.0, 12.0]
