"""capture-thrust-synchronize: a sparse COO product waits for its stream."""

import torch


def fails() -> None:
    """torch.sparse.mm of a COO matrix converts its indices with Thrust."""
    x = torch.ones(64, 64, device="cuda")
    diagonal = torch.arange(64, device="cuda")
    coo = torch.sparse_coo_tensor(torch.stack([diagonal, diagonal]), torch.ones(64, device="cuda"), (64, 64))
    torch.sparse.mm(coo, x)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        torch.sparse.mm(coo, x)


def works() -> None:
    """The matrix is converted to CSR once, before the capture."""
    x = torch.ones(64, 64, device="cuda")
    csr = (torch.eye(64, device="cuda") * 3).to_sparse_csr()
    csr @ x
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        out = csr @ x
    for value in (1.0, 3.0):
        x.fill_(value)
        g.replay()
        torch.cuda.synchronize()
        assert torch.allclose(out, x * 3)
