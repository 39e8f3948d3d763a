"""Next-token choice with transformers' ban on repeated bigrams."""
# needs: transformers
import torch
from transformers import BioGptConfig, BioGptForCausalLM
from transformers.generation import NoRepeatNGramLogitsProcessor


def make(device="cuda"):
    config = BioGptConfig(vocab_size=90, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64,
                          max_position_embeddings=64)
    model = BioGptForCausalLM(config).to(device).eval()
    banned = NoRepeatNGramLogitsProcessor(2)

    @torch.no_grad()
    def choose(tokens):
        scores = model(input_ids=tokens, use_cache=False).logits[:, -1]
        return banned(tokens, scores).argmax(-1)

    return {"fn": choose, "inputs": lambda: (torch.randint(3, 90, (3, 14), device=device),), "kind": "sampler"}
