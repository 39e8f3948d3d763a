"""record-stream-holds-memory: blocks marked with `record_stream` are not reused in the rest of a capture."""

import torch

_BYTES = 64 * 2**20


def _reserved_by_capture(*, mark: bool) -> int:
    """Bytes that a capture of eight steps adds, each with one 64 MiB temporary used on a side stream."""
    x = torch.ones(_BYTES // 4, device="cuda")
    total = torch.zeros_like(x)
    side = torch.cuda.Stream()
    torch.add(x, x, out=total)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        main = torch.cuda.current_stream()
        total.zero_()
        for _ in range(8):
            part = x * 2
            side.wait_stream(main)
            with torch.cuda.stream(side):
                total.add_(part)
            if mark:
                part.record_stream(side)
            main.wait_stream(side)
            del part
    after = torch.cuda.memory_reserved()
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        assert total.eq(value * 16).all()
    return int(after - before)


def fails() -> None:
    """Eight temporaries are held at once."""
    assert _reserved_by_capture(mark=True) >= 8 * _BYTES


def works() -> None:
    """The streams join before the temporary dies, so its block serves the next step."""
    assert _reserved_by_capture(mark=False) < 3 * _BYTES
