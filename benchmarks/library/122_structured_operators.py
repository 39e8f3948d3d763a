"""linear_operator: Kronecker, low-rank and diagonal operators applied to vectors."""
# needs: linear_operator
import torch
from linear_operator.operators import DenseLinearOperator as Dense
from linear_operator.operators import DiagLinearOperator, KroneckerProductLinearOperator, RootLinearOperator


def make(device="cuda"):
    left, right = Dense(torch.randn(6, 6, device=device)), Dense(torch.randn(5, 5, device=device))
    kronecker, root = KroneckerProductLinearOperator(left, right), torch.randn(30, 3, device=device)

    @torch.no_grad()
    def apply(scale, vectors):
        return kronecker @ vectors + RootLinearOperator(root) @ vectors, (DiagLinearOperator(scale) @ kronecker).to_dense()

    return {"fn": apply, "inputs": lambda: (torch.rand(30, device=device), torch.randn(30, 4, device=device)),
            "kind": "inference"}
