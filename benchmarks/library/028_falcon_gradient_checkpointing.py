"""Falcon trained with gradient checkpointing as the library switches it on."""
# needs: transformers
import torch
from transformers import FalconConfig, FalconForCausalLM


def make(device="cuda"):
    config = FalconConfig(vocab_size=120, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, hidden_dropout=0.1)
    model = FalconForCausalLM(config).to(device).train()
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(tokens):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randint(0, 120, (2, 16), device=device),), "kind": "training_step"}
