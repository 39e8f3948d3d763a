"""Mixtral with the plain loop over experts: scores of a prompt."""
# needs: transformers
import torch
from transformers import MixtralConfig, MixtralForCausalLM


def make(device="cuda"):
    config = MixtralConfig(vocab_size=256, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                           num_key_value_heads=2, num_local_experts=4, experts_implementation="eager")
    model = MixtralForCausalLM(config).to(device).eval()

    @torch.no_grad()
    def score(tokens):
        logits = model(input_ids=tokens, use_cache=False).logits
        return logits.log_softmax(-1)[:, :-1].gather(-1, tokens[:, 1:, None]).squeeze(-1)

    return {"fn": score, "inputs": lambda: (torch.randint(0, 256, (2, 16), device=device),), "kind": "inference"}
