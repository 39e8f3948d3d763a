"""Capture a step, for the reference submissions: warm up, put back what that changed, and replay.

On a CPU the step itself is called after the same warm-up, so that all but the capture can be tried there.
"""

import torch


def captured(step, device, state, made=lambda: (), pool=None, warmups=3):
    """Return `step`, which takes no arguments, as a call that replays it and returns copies of its results.

    `state` are tensors that the warm-up changes, and `made()` those that it makes, which begin at zero (of optimizers).
    """
    kept = [(tensor, tensor.detach().clone()) for tensor in state]
    device = torch.device(device)
    random = torch.cuda.get_rng_state() if device.type == "cuda" else torch.get_rng_state()
    if device.type == "cuda":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmups):
                step()
        torch.cuda.current_stream().wait_stream(side)
    else:
        for _ in range(warmups):
            step()
    with torch.no_grad():
        for tensor, before in kept:
            tensor.copy_(before)
        for tensor in made():
            tensor.zero_()
    if device.type != "cuda":
        torch.set_rng_state(random)
        return step
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):  # NCCL has a thread of its own
        results = step()
    torch.cuda.set_rng_state(random)

    def replay():
        graph.replay()
        if isinstance(results, torch.Tensor):
            return results.clone()
        return tuple(result.clone() for result in results or ())

    replay.pool = graph.pool()
    return replay


def optimizer_tensors(*optimizers):
    """Return the tensors that optimizers made."""
    return [
        value
        for optimizer in optimizers
        for state in optimizer.state.values()
        for value in state.values()
        if isinstance(value, torch.Tensor)
    ]
