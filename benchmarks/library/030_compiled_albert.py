"""ALBERT encoder under torch.compile: sentence embeddings."""
# needs: transformers
import torch
from transformers import AlbertConfig, AlbertModel


def make(device="cuda"):
    config = AlbertConfig(vocab_size=150, embedding_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                          intermediate_size=64)
    model = AlbertModel(config, add_pooling_layer=False).to(device).eval()
    compiled = torch.compile(model, dynamic=False)

    @torch.no_grad()
    def encode(tokens):
        return compiled(input_ids=tokens).last_hidden_state.mean(1)

    return {"fn": encode, "inputs": lambda: (torch.randint(0, 150, (4, 16), device=device),), "kind": "inference"}
