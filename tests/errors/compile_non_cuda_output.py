"""compile-non-cuda-output: an op returns a host tensor although its fake promises a CUDA one."""

import torch


@torch.library.custom_op("errors_compile::limits", mutates_args=())
def limits(t: torch.Tensor) -> torch.Tensor:
    return torch.full((4,), 2.0 * t.dim())


@limits.register_fake
def _(t: torch.Tensor) -> torch.Tensor:
    return t.new_empty(4)


@torch.library.custom_op("errors_compile::device_limits", mutates_args=())
def device_limits(t: torch.Tensor) -> torch.Tensor:
    return t.new_full((4,), 2.0 * t.dim())


@device_limits.register_fake
def _(t: torch.Tensor) -> torch.Tensor:
    return t.new_empty(4)


def fails() -> None:
    """The warm-up passes; the recording finds the host tensor."""
    fast = torch.compile(lambda t: (t + 1, limits(t)), mode="reduce-overhead")
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """The op allocates on the device of its input."""
    fast = torch.compile(lambda t: (t + 1, device_limits(t)), mode="reduce-overhead")
    for value in range(6):
        out, limit = fast(torch.full((64,), float(value), device="cuda"))
        assert out[0].item() == value + 1
        assert limit[0].item() == 2
