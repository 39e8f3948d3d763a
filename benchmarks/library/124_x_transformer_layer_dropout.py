"""x-transformers encoder with layer dropout on sequences of features."""
# needs: x-transformers
import torch
from x_transformers import ContinuousTransformerWrapper, Encoder


def make(device="cuda"):
    encoder = Encoder(dim=32, depth=6, heads=4, attn_dim_head=8, layer_dropout=0.4)
    model = ContinuousTransformerWrapper(dim_in=8, dim_out=3, max_seq_len=24, attn_layers=encoder).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(series, target):
        loss = torch.nn.functional.mse_loss(model(series).mean(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(4, 20, 8, device=device), torch.randn(4, 3, device=device)),
            "kind": "training_step"}
