"""GPT-BigCode with torch's own Adafactor."""
# needs: transformers
import torch
from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM


def make(device="cuda"):
    config = GPTBigCodeConfig(vocab_size=100, n_embd=32, n_layer=2, n_head=4, n_positions=32, resid_pdrop=0.0, embd_pdrop=0.0,
                              attn_pdrop=0.0, bos_token_id=1, eos_token_id=2)
    model = GPTBigCodeForCausalLM(config).to(device).train()
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2)

    def step(tokens):
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randint(3, 100, (2, 12), device=device),), "kind": "training_step"}
