"""compile-pool-tensor-not-tracked: a custom op keeps a tensor that it made inside."""

import torch

PEAKS: list[torch.Tensor] = []


@torch.library.custom_op("errors_compile::scale_and_log", mutates_args=())
def scale_and_log(t: torch.Tensor) -> torch.Tensor:
    peak = t.abs().amax()
    PEAKS.append(peak)
    return t / (peak + 1)


@scale_and_log.register_fake
def _(t: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(t)


@torch.library.custom_op("errors_compile::scale_and_return", mutates_args=())
def scale_and_return(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    peak = t.abs().amax()
    return t / (peak + 1), peak


@scale_and_return.register_fake
def _(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(t), t.new_empty(())


def fails() -> None:
    """The global list holds memory of the graph pool."""
    fast = torch.compile(lambda t: scale_and_log(t + 1), mode="reduce-overhead")
    for _ in range(3):
        fast(torch.ones(64, device="cuda"))


def works() -> None:
    """The peak is an output, and the caller keeps a clone."""
    fast = torch.compile(lambda t: scale_and_return(t + 1), mode="reduce-overhead")
    for value in range(6):
        scaled, peak = fast(torch.full((64,), float(value), device="cuda"))
        PEAKS.append(peak.clone())
        torch.testing.assert_close(scaled[0].item(), (value + 1) / (value + 2), rtol=1e-4, atol=1e-4)
    assert [p.item() for p in PEAKS] == [1, 2, 3, 4, 5, 6]
