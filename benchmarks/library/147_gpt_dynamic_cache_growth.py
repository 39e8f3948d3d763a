"""Phi with the default growing cache: scoring of a stream, token by token."""
# needs: transformers
import torch
from transformers import DynamicCache, PhiConfig, PhiForCausalLM


class Stream:
    def __init__(self, device):
        config = PhiConfig(vocab_size=110, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                           max_position_embeddings=256)
        self.model = PhiForCausalLM(config).to(device).eval()
        self.past = DynamicCache(config=config)

    @torch.inference_mode()
    def surprise(self, token, following):
        out = self.model(input_ids=token, past_key_values=self.past, use_cache=True)
        return torch.nn.functional.cross_entropy(out.logits[:, -1], following, reduction="none")


def make(device="cuda"):
    def inputs():
        return torch.randint(0, 110, (3, 1), device=device), torch.randint(0, 110, (3,), device=device)

    return {"fn": Stream(device).surprise, "inputs": inputs, "kind": "inference"}
