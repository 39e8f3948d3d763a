"""GPT-2 decoding one token per call into a StaticCache."""
# needs: transformers
import torch
from transformers import GPT2Config, GPT2LMHeadModel, StaticCache


def make(device="cuda"):
    config = GPT2Config(vocab_size=400, n_embd=64, n_layer=3, n_head=4, n_positions=256, bos_token_id=1, eos_token_id=2)
    model = GPT2LMHeadModel(config).to(device).eval()
    cache = StaticCache(config=config, max_cache_len=128)
    prompt = torch.randint(0, 400, (2, 6), device=device)
    length = torch.tensor([6], device=device)
    with torch.no_grad():
        model(prompt, past_key_values=cache)

    @torch.no_grad()
    def decode(token):
        logits = model(token, past_key_values=cache, position_ids=length.expand(2, 1)).logits
        length.add_(1)
        return logits[:, -1].log_softmax(-1)

    return {"fn": decode, "inputs": lambda: (torch.randint(0, 400, (2, 1), device=device),), "kind": "inference"}
