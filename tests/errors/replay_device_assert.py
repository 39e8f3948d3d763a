"""replay-device-assert: a later batch holds an index that the embedding table does not have."""

import torch
from torch import nn


def _record() -> tuple[torch.cuda.CUDAGraph, nn.Embedding, torch.Tensor, torch.Tensor]:
    table = nn.Embedding(100, 16, device="cuda")
    ids = torch.zeros(8, dtype=torch.long, device="cuda")
    with torch.no_grad():
        table(ids)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = table(ids)
    return graph, table, ids, out


def _graph_replay(graph: torch.cuda.CUDAGraph) -> None:
    """One step, waited for: the error comes asynchronously."""
    graph.replay()
    torch.cuda.synchronize()


def fails() -> None:
    """The second batch has ids up to 103; the check is in the recorded kernel."""
    graph, _table, ids, _out = _record()
    for batch in (torch.arange(8), torch.arange(96, 104)):
        ids.copy_(batch)
        _graph_replay(graph)


def works() -> None:
    """The host looks at the batch before it is copied, and maps unknown ids to a valid one."""
    graph, table, ids, out = _record()
    for batch in (torch.arange(8), torch.arange(96, 104)):
        known = torch.where(batch < table.num_embeddings, batch, 0)
        ids.copy_(known)
        _graph_replay(graph)
        assert torch.equal(out, table.weight[ids])
