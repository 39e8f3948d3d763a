"""compile-recording-not-permitted: a custom op that waits for the GPU, without the tag that says so."""

import torch


@torch.library.custom_op("errors_compile::untagged_scale", mutates_args=())
def untagged_scale(t: torch.Tensor) -> torch.Tensor:
    return t * float(t.abs().max().item())


@untagged_scale.register_fake
def _(t: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(t)


@torch.library.custom_op("errors_compile::tagged_scale", mutates_args=(), tags=(torch._C.Tag.cudagraph_unsafe,))
def tagged_scale(t: torch.Tensor) -> torch.Tensor:
    return t * float(t.abs().max().item())


@tagged_scale.register_fake
def _(t: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(t)


def fails() -> None:
    """The first call is a warm-up and passes; the second one records."""
    fast = torch.compile(lambda t: untagged_scale(t + 1) - 1, mode="reduce-overhead")
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """The tag makes inductor run the op between two graphs."""
    fast = torch.compile(lambda t: tagged_scale(t + 1) - 1, mode="reduce-overhead")
    for value in range(6):
        out = fast(torch.full((64,), float(value), device="cuda"))
        assert out[0].item() == (value + 1) ** 2 - 1
