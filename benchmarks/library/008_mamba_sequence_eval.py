"""Mamba language model: logits of whole sequences."""
# needs: transformers
import torch
from transformers import MambaConfig, MambaForCausalLM


def make(device="cuda"):
    config = MambaConfig(vocab_size=200, hidden_size=32, state_size=8, num_hidden_layers=2, expand=2, conv_kernel=4)
    model = MambaForCausalLM(config).to(device).eval()

    @torch.no_grad()
    def logits(tokens):
        return model(input_ids=tokens, use_cache=False).logits

    return {"fn": logits, "inputs": lambda: (torch.randint(0, 200, (2, 20), device=device),), "kind": "inference"}
