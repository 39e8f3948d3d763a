"""hang-during-capture: the code waits for a flag that only the recorded work would set."""

import time

import torch


def fails() -> None:
    """The loop has a deadline here; in real code it has none."""
    done = torch.zeros(1, dtype=torch.int32, device="cuda")
    flag = torch.zeros(1, dtype=torch.int32).pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        done.fill_(1)
        flag.copy_(done, non_blocking=True)
        deadline = time.monotonic() + 3
        while flag[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
    assert flag[0] == 0  # nothing has run
    assert time.monotonic() >= deadline


def works() -> None:
    """The wait stands after the replay."""
    done = torch.zeros(1, dtype=torch.int32, device="cuda")
    flag = torch.zeros(1, dtype=torch.int32).pin_memory()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        done.add_(1)
        flag.copy_(done, non_blocking=True)
    for step in (1, 2):
        graph.replay()
        torch.cuda.synchronize()
        assert flag[0] == step
