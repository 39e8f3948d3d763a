"""capture-other-device: the capture is open on one GPU, the work is on another."""

# needs: gpus=2
import torch


def fails() -> None:
    """cuda:0 captures, the tensor lives on cuda:1 and needs new memory there."""
    torch.cuda.set_device(0)
    x = torch.ones(1 << 26, device="cuda:1")
    g = torch.cuda.CUDAGraph()
    refused = ""
    try:
        with torch.cuda.graph(g):
            x * 2
    except RuntimeError as error:
        refused = f"{error.__context__} {error}"
    assert "during capture" in refused or "stream is capturing" in refused


def works() -> None:
    """The capture and its stream are on the tensor's device."""
    with torch.cuda.device(1):
        x = torch.ones(1 << 20, device="cuda:1")
        g = torch.cuda.CUDAGraph()
        with torch.cuda.graph(g, stream=torch.cuda.Stream(device=1)):
            out = x * 2
        for value in (1.0, 3.0):
            x.fill_(value)
            g.replay()
            torch.cuda.synchronize()
            assert torch.equal(out, x * 2)
