"""Gemma 3 with sliding and full layers: a greedy token per call into a static cache, with a bias on the logits."""
# needs: transformers
import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, StaticCache


class Writer:
    def __init__(self, device):
        config = Gemma3TextConfig(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
                                  num_attention_heads=4, num_key_value_heads=2, head_dim=16, sliding_window=12,
                                  max_position_embeddings=256, layer_types=["sliding_attention", "full_attention"])
        self.model = Gemma3ForCausalLM(config).to(device).eval()
        self.cache = StaticCache(config=config, max_cache_len=128)
        self.last = torch.randint(0, 256, (2, 20), device=device)
        self.last = self.write(torch.zeros(256, device=device)).argmax(-1, keepdim=True)

    @torch.no_grad()
    def write(self, bias):
        scores = self.model(input_ids=self.last, past_key_values=self.cache).logits[:, -1] + bias
        if self.last.shape[1] == 1:
            self.last.copy_(scores.argmax(-1, keepdim=True))
        return scores.log_softmax(-1)


def make(device="cuda"):
    return {"fn": Writer(device).write, "inputs": lambda: (0.1 * torch.randn(256, device=device),), "kind": "sampler"}
