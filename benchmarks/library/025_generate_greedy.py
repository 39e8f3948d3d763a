"""GPT-NeoX: eight greedy tokens by generate()."""
# needs: transformers
import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM


def make(device="cuda"):
    config = GPTNeoXConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                           max_position_embeddings=64, eos_token_id=2, pad_token_id=0)
    model = GPTNeoXForCausalLM(config).to(device).eval()

    @torch.no_grad()
    def write(prompt):
        return model.generate(prompt, max_new_tokens=8, do_sample=False)

    return {"fn": write, "inputs": lambda: (torch.randint(3, 100, (2, 5), device=device),), "kind": "inference"}
