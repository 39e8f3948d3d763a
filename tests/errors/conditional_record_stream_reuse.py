"""conditional-record-stream-reuse: conditional nodes under an allocator setting that excludes them."""

# needs: torch>=2.13 (not in 2.11)
import os

os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "graph_capture_record_stream_reuse:True"

import torch


def fails() -> None:
    """The setting is on and the capture has an IF node."""
    flag, x = torch.tensor(True, device="cuda"), torch.ones(8, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        g.begin_capture_to_if_node(flag)
        x.add_(1)
        g.end_capture_to_conditional_node()


def works() -> None:
    """A select instead of a branch."""
    flag, x = torch.tensor(True, device="cuda"), torch.ones(8, device="cuda")
    torch.where(flag, x + 1, x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        y = torch.where(flag, x + 1, x)
    for value, taken in ((3.0, True), (5.0, False)):
        x.fill_(value)
        flag.fill_(taken)
        g.replay()
        assert y.eq(value + taken).all()
