"""Longformer with one global token: encoding of a document."""
# needs: transformers
import torch
from transformers import LongformerConfig, LongformerModel


def make(device="cuda"):
    config = LongformerConfig(vocab_size=300, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                              attention_window=[8, 8], max_position_embeddings=80, pad_token_id=1)
    model = LongformerModel(config).to(device).eval()
    everywhere = torch.ones(2, 32, dtype=torch.long, device=device)
    first = torch.zeros_like(everywhere)
    first[:, 0] = 1

    @torch.no_grad()
    def encode(tokens):
        out = model(input_ids=tokens, attention_mask=everywhere, global_attention_mask=first)
        return out.last_hidden_state[:, 0]

    return {"fn": encode, "inputs": lambda: (torch.randint(3, 300, (2, 32), device=device),), "kind": "inference"}
