"""Qwen3-MoE in bfloat16 with the default expert implementation: hidden states of a prompt."""
# needs: transformers
import torch
from transformers import Qwen3MoeConfig, Qwen3MoeModel


def make(device="cuda"):
    config = Qwen3MoeConfig(vocab_size=256, hidden_size=64, intermediate_size=128, moe_intermediate_size=64, num_experts=8,
                            num_experts_per_tok=2, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                            head_dim=16)
    model = Qwen3MoeModel(config).to(device, torch.bfloat16).eval()

    @torch.no_grad()
    def embed(tokens):
        hidden = model(input_ids=tokens, use_cache=False).last_hidden_state
        return torch.nn.functional.normalize(hidden.mean(1).float(), dim=-1)

    return {"fn": embed, "inputs": lambda: (torch.randint(0, 256, (4, 32), device=device),), "kind": "inference"}
