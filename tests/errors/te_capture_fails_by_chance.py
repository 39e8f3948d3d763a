"""te-capture-fails-by-chance: another thread allocates on the GPU while Transformer Engine captures."""

# needs: transformer-engine
import threading

import torch
import transformer_engine.pytorch as te
from torch import nn

DEPTH = 200  # a capture that lasts longer than one allocation of the other thread


def _model() -> nn.Module:
    return nn.Sequential(*(te.Linear(64, 64, bias=False) for _ in range(DEPTH)))


def _allocate(stop: threading.Event) -> None:
    while not stop.is_set():
        try:
            torch.empty(1 << 28, device="cuda")
            torch.cuda.empty_cache()
        except torch.AcceleratorError:
            return


def fails() -> None:
    """A loader's thread prepares batches on the GPU meanwhile."""
    model = _model()
    sample = (torch.randn(32, 64, device="cuda", requires_grad=True),)
    stop = threading.Event()
    thread = threading.Thread(target=_allocate, args=(stop,), daemon=True)
    thread.start()
    try:
        te.make_graphed_callables(model, sample)
    except RuntimeError as error:
        print(error)
        assert "captur" in str(error)  # noqa: PT017 - the message is what is shown
        return
    finally:
        stop.set()
    raise AssertionError("the capture was not disturbed")


def works() -> None:
    """Graphs are made before any such thread starts."""
    model = te.make_graphed_callables(_model(), (torch.randn(32, 64, device="cuda", requires_grad=True),))
    stop = threading.Event()
    thread = threading.Thread(target=_allocate, args=(stop,), daemon=True)
    thread.start()
    for _ in range(3):
        assert torch.isfinite(model(torch.randn(32, 64, device="cuda", requires_grad=True))).all()
    stop.set()
    thread.join()
