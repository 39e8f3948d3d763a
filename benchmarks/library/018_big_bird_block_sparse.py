"""BigBird with block-sparse attention: encoding of long sequences."""
# needs: transformers
import torch
from transformers import BigBirdConfig, BigBirdModel


def make(device="cuda"):
    config = BigBirdConfig(vocab_size=200, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64,
                           attention_type="block_sparse", block_size=8, num_random_blocks=2, max_position_embeddings=256)
    model = BigBirdModel(config).to(device).eval()

    @torch.no_grad()
    def encode(tokens):
        return model(input_ids=tokens).pooler_output

    return {"fn": encode, "inputs": lambda: (torch.randint(1, 200, (2, 128), device=device),), "kind": "inference"}
