"""capture-other-thread-call: a background thread allocates while the capture is open."""

import os
import threading

import torch


def capture_beside_a_thread(mode: str) -> None:
    """Captures while a worker makes a large tensor."""
    x = torch.ones(16, device="cuda")
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, capture_error_mode=mode):
        out = x * 2
        worker = threading.Thread(target=torch.empty, args=(1 << 28,), kwargs={"device": "cuda"})
        worker.start()
        worker.join()
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.equal(out, x * 2)


def fails() -> None:
    """Both sides die: the worker with 900, the capture with 901; the driver's log says who met whom."""
    os.environ["CUDA_LOG_FILE"] = "stderr"
    capture_beside_a_thread("global")


def works() -> None:
    """Only the capturing thread is policed."""
    capture_beside_a_thread("thread_local")
