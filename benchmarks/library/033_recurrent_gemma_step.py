"""RecurrentGemma reading one token per call with the states that its blocks keep."""
# needs: transformers
import torch
from transformers import RecurrentGemmaConfig, RecurrentGemmaModel


def make(device="cuda"):
    config = RecurrentGemmaConfig(vocab_size=100, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
                                  num_key_value_heads=1, head_dim=8, intermediate_size=64, lru_width=32,
                                  attention_window_size=16, conv1d_width=4)
    model = RecurrentGemmaModel(config).to(device).eval()
    position = torch.full((1,), 6, device=device)
    with torch.no_grad():
        model(input_ids=torch.randint(0, 100, (2, 6), device=device), use_cache=True)

    @torch.no_grad()
    def read(token):
        hidden = model(input_ids=token, position_ids=position[None], use_cache=True).last_hidden_state
        position.add_(1)
        return hidden[:, -1]

    return {"fn": read, "inputs": lambda: (torch.randint(0, 100, (2, 1), device=device),), "kind": "inference"}
