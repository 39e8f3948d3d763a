"""compile-skip-incompatible-op: an op tagged cudagraph_unsafe while partition is off."""

import torch


@torch.library.custom_op("errors_compile::host_scale", mutates_args=(), tags=(torch._C.Tag.cudagraph_unsafe,))
def host_scale(t: torch.Tensor) -> torch.Tensor:
    return t * float(t.abs().max().item())


@host_scale.register_fake
def _(t: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(t)


def net(t: torch.Tensor) -> torch.Tensor:
    return host_scale(t + 1) - 1


def fails() -> None:
    """One unsafe op, and the whole graph is given up."""
    fast = torch.compile(net, options={"triton.cudagraphs": True, "graph_partition": False})
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """With partition on, the op runs between two graphs."""
    fast = torch.compile(net, options={"triton.cudagraphs": True, "graph_partition": True})
    for value in range(6):
        out = fast(torch.full((64,), float(value), device="cuda"))
        assert out[0].item() == (value + 1) ** 2 - 1
