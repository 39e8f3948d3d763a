"""One sampling step: temperature, top-k and top-p of transformers, then a draw, on an OPT model."""
# needs: transformers
import torch
from transformers import OPTConfig, OPTForCausalLM
from transformers.generation import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper


def make(device="cuda"):
    config = OPTConfig(vocab_size=160, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64,
                       max_position_embeddings=64, word_embed_proj_dim=32)
    model = OPTForCausalLM(config).to(device).eval()
    warp = LogitsProcessorList([TemperatureLogitsWarper(0.8), TopKLogitsWarper(40), TopPLogitsWarper(0.9)])

    @torch.no_grad()
    def sample(tokens):
        scores = warp(tokens, model(input_ids=tokens, use_cache=False).logits[:, -1])
        return torch.multinomial(scores.softmax(-1), 1), scores.softmax(-1)

    return {"fn": sample, "inputs": lambda: (torch.randint(0, 160, (4, 12), device=device),), "kind": "sampler"}
