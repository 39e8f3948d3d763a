"""sparse-layout: a sparse tensor whose number of entries the CPU has to know."""

import torch
from torch import nn

DEVICE = "cuda"
NODES = 8

edges = torch.stack([torch.arange(NODES), (torch.arange(NODES) * 3 + 1) % NODES]).to(DEVICE)


def inputs():
    """Node features."""
    return (torch.randn(NODES, 4, device=DEVICE),)


def bad_thresholded_activation(h):
    kept = torch.where(h > 0.5, h, 0.0).to_sparse()  # CG225
    return h * 2 + kept.to_dense()


class GraphConvolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def propagate(self, h, weight):
        return torch.sparse.mm(torch.sparse_coo_tensor(edges, weight, (NODES, NODES)), h)  # CG225

    def forward(self, h):
        return self.propagate(self.fc(h), h[:, 0].sigmoid())


convolution = GraphConvolution().to(DEVICE).requires_grad_(False)


def bad_weighted_neighbours(h):
    return convolution(h)


def merged_weights(index, weight):
    return torch.sparse_coo_tensor(index, weight, (NODES, NODES)).coalesce().values()  # CG225


def bad_merged_edges(h):
    return merged_weights(edges, h[:, 0])


adjacency = torch.eye(NODES, device=DEVICE).roll(1, 0).to_sparse_csr()


def good_fixed_csr_matrix(h):
    return adjacency @ h


def good_scattered_messages(h):
    source, target = edges[0], edges[1]
    weight = h[:, 0].sigmoid()
    return torch.zeros_like(h).index_add_(0, target, h[source] * weight[:, None])


class TopActivations(nn.Module):
    """Sparse in meaning, dense in memory."""

    def to_sparse(self, h):
        values, index = h.topk(2, dim=1)
        return torch.zeros_like(h).scatter(1, index, values)

    def forward(self, h):
        assert not h.is_sparse and h.layout == torch.strided
        return self.to_sparse(h)


top = TopActivations()


def good_dense_top_activations(h):
    return top(h)
