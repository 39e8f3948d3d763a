"""compile-skip-min-partition-size: the function has fewer kernels than the wanted minimum."""

# needs: torch>=2.13 (older releases do not say it)
import torch
from torch._dynamo.utils import counters


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """A minimum of 100 kernels leaves this partition without a graph."""
    torch._logging.set_logs(cudagraphs=True)
    fast = torch.compile(double, options={"triton.cudagraphs": True, "triton.cudagraph_min_partition_size": 100})
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """No minimum, so it is recorded."""
    fast = torch.compile(double, options={"triton.cudagraphs": True, "triton.cudagraph_min_partition_size": 0})
    for value in range(6):
        x = torch.full((64,), float(value), device="cuda")
        torch.testing.assert_close(fast(x), x * 2)
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == 1
