"""te-fused-adam-capturable: master weights in a dtype that the kernel for capture does not have."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch  # noqa: F401 - its libraries come first
from torch import nn
from transformer_engine.pytorch.optimizers import FusedAdam


def _model() -> nn.Module:
    model = nn.Linear(64, 64).cuda().bfloat16()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


def fails() -> None:
    """Half precision saves memory in the eager step."""
    FusedAdam(_model().parameters(), capturable=True, master_weights=True, master_weight_dtype=torch.float16)


def works() -> None:
    """fp32 master weights and moments."""
    model = _model()
    opt = FusedAdam(model.parameters(), lr=0.1, capturable=True, master_weights=True)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            opt.step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        opt.step()
    for _ in range(2):
        before = model.weight.detach().clone()
        graph.replay()
        assert not torch.equal(model.weight, before)
