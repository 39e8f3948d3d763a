"""te-feature-refuses-capture: the sizes of the groups lie on the GPU, and the capture may not read them."""

# needs: transformer-engine
import torch
import transformer_engine.pytorch  # noqa: F401 - its libraries come first
from transformer_engine.pytorch.tensor.storage.grouped_tensor_storage import GroupedTensorStorage


def fails() -> None:
    """As many rows for each expert as the router gave it."""
    rows = torch.tensor([24, 40], device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        GroupedTensorStorage.make_grouped_tensor(2, rows, None, 64, 32, dtype=torch.bfloat16)


def works() -> None:
    """Padded groups of one size."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        groups = GroupedTensorStorage.make_grouped_tensor(2, None, None, 64, 32, dtype=torch.bfloat16)
    graph.replay()
    assert groups.num_tensors == 2
