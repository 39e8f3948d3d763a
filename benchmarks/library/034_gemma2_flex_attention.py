"""Gemma-2 with flex attention: hidden states of short prompts."""
# needs: transformers
import torch
from transformers import Gemma2Config, Gemma2Model


def make(device="cuda"):
    config = Gemma2Config(vocab_size=100, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
                          num_key_value_heads=2, head_dim=16, sliding_window=64, attn_implementation="flex_attention")
    model = Gemma2Model(config).to(device).eval()

    @torch.no_grad()
    def encode(tokens):
        return model(input_ids=tokens, use_cache=False).last_hidden_state

    return {"fn": encode, "inputs": lambda: (torch.randint(0, 100, (2, 128), device=device),), "kind": "inference"}
