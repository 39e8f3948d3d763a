"""loss-scale-restarts: the scaler creates its scale inside the capture."""

import torch


def _scale_after(*, warm: bool) -> tuple[float, float]:
    value = torch.ones(1, device="cuda")
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0)
    if warm:
        scaler.scale(value)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scaled = scaler.scale(value)
    graph.replay()
    scaler.update(new_scale=8.0)
    value.fill_(2.0)
    graph.replay()
    return scaler.get_scale(), float(scaled)


def fails() -> None:
    """The replay fills in the start value again."""
    assert _scale_after(warm=False) == (1024.0, 2048.0)


def works() -> None:
    """The scale exists before the capture and is only read."""
    assert _scale_after(warm=True) == (8.0, 16.0)
