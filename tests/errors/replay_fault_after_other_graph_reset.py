"""replay-fault-after-other-graph-reset: a graph is evicted although another one reads what it wrote."""

from collections.abc import Callable

import torch

Recorded = tuple[torch.cuda.CUDAGraph, torch.Tensor]


def _record(function: Callable[[torch.Tensor], torch.Tensor], source: torch.Tensor) -> Recorded:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function(source)
    return graph, result


def _encoder_and_decoder(x: torch.Tensor) -> dict[str, Recorded]:
    """The decoder's graph reads the encoder's static output."""
    cache = {"encoder": _record(lambda t: t * 2, x)}
    cache["decoder"] = _record(lambda t: t + 1, cache["encoder"][1])
    return cache


def _graph_replay_all(graph_cache: dict[str, Recorded]) -> None:
    for graph, _ in graph_cache.values():
        graph.replay()
    torch.cuda.synchronize()


def _evict(graph_cache: dict[str, Recorded], name: str) -> None:
    """Drops one graph with its output and looks whether the others still work."""
    graph_cache.pop(name)[0].reset()
    torch.cuda.empty_cache()
    _graph_replay_all(graph_cache)


def fails() -> None:
    """The encoder leaves the cache with its output; the decoder is replayed once more."""
    x = torch.ones(32 << 20, device="cuda")
    graph_cache = _encoder_and_decoder(x)
    _graph_replay_all(graph_cache)
    _evict(graph_cache, "encoder")


def works() -> None:
    """The chain is replayed whole, and retired whole."""
    x = torch.ones(32 << 20, device="cuda")
    graph_cache = _encoder_and_decoder(x)
    for value in (1.0, 4.0):
        x.fill_(value)
        _graph_replay_all(graph_cache)
        assert graph_cache["decoder"][1].eq(2 * value + 1).all()
    for graph, _ in graph_cache.values():
        graph.reset()
    graph_cache.clear()
    torch.cuda.empty_cache()
