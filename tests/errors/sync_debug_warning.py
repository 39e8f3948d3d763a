"""sync-debug-warning: the detector names a line that waits for the GPU."""

import torch


def check_before_cuda_graph(x: torch.Tensor) -> None:
    """The step that is going to be captured, under the detector."""
    torch.cuda.set_sync_debug_mode("error")
    if x.sum() > 0:
        x.mul_(2)


def fails() -> None:
    """In "error" mode the line raises; in "warn" mode it would warn and run on."""
    check_before_cuda_graph(torch.ones(16, device="cuda"))


def works() -> None:
    """The choice is made on the device: the detector is silent and the step can be captured."""
    x = torch.ones(16, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    torch.where(x.sum() > 0, x * 2, x)
    torch.cuda.set_sync_debug_mode("default")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = torch.where(x.sum() > 0, x * 2, x)
    for value in (3.0, -3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, torch.where(x.sum() > 0, x * 2, x))
