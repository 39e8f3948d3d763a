"""Mamba-2 decoding one token per call from the states of a prompt."""
# needs: transformers
import torch
from transformers import Mamba2Config, Mamba2ForCausalLM


def make(device="cuda"):
    config = Mamba2Config(vocab_size=200, hidden_size=32, num_heads=8, head_dim=8, state_size=16, n_groups=2,
                          num_hidden_layers=2, expand=2, chunk_size=8)
    model = Mamba2ForCausalLM(config).to(device).eval()
    with torch.no_grad():
        cache = model(torch.randint(0, 200, (2, 8), device=device), use_cache=True).cache_params

    @torch.no_grad()
    def decode(token):
        return model(token, cache_params=cache, use_cache=True).logits[:, -1]

    return {"fn": decode, "inputs": lambda: (torch.randint(0, 200, (2, 1), device=device),), "kind": "inference"}
