"""compile-rerecord-dead-indices: an output is kept that was dropped while recording."""

# needs: torch>=2.13 (older releases do not say it)
import torch
from torch._dynamo.utils import counters


def split(t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return t + 1, t * 3


def double(t: torch.Tensor) -> torch.Tensor:
    return t * 2


def fails() -> None:
    """The second output is alive at the last step only."""
    torch._logging.set_logs(cudagraphs=True)
    f = torch.compile(split, mode="reduce-overhead")
    g = torch.compile(double, mode="reduce-overhead")
    for step in range(6):
        torch.compiler.cudagraph_mark_step_begin()
        main, aside = f(torch.full((64,), float(step), device="cuda"))
        if step < 5:
            del aside
        out = g(main)
        assert out[0].item() == 2 * (step + 1)


def works() -> None:
    """What is wanted of the second output is cloned, the output dropped in every step."""
    f = torch.compile(split, mode="reduce-overhead")
    g = torch.compile(double, mode="reduce-overhead")
    recorded = 0
    for step in range(8):
        torch.compiler.cudagraph_mark_step_begin()
        main, aside = f(torch.full((64,), float(step), device="cuda"))
        kept = aside.clone()
        del aside
        out = g(main)
        assert out[0].item() == 2 * (step + 1)
        assert kept[0].item() == 3 * step
        if step == 3:
            recorded = counters["inductor"]["cudagraph_recorded_non_static_inputs"]
    assert counters["inductor"]["cudagraph_recorded_non_static_inputs"] == recorded
