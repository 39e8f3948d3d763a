"""CANINE: sentence vectors straight from Unicode code points."""
# needs: transformers
import torch
from transformers import CanineConfig, CanineModel


def make(device="cuda"):
    config = CanineConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128,
                          num_hash_buckets=512, max_position_embeddings=256, local_transformer_stride=32)
    model = CanineModel(config).to(device).eval()

    @torch.no_grad()
    def encode(code_points):
        return model(input_ids=code_points).last_hidden_state.mean(1)

    return {"fn": encode, "inputs": lambda: (torch.randint(32, 1000, (2, 128), device=device),), "kind": "inference"}
