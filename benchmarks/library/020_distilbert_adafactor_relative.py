"""DistilBERT classification with transformers' Adafactor and its own step size."""
# needs: transformers
import torch
from transformers import Adafactor, DistilBertConfig, DistilBertForSequenceClassification


def make(device="cuda"):
    config = DistilBertConfig(vocab_size=200, dim=32, hidden_dim=64, n_layers=2, n_heads=4, num_labels=3)
    model = DistilBertForSequenceClassification(config).to(device).train()
    optimizer = Adafactor(model.parameters(), scale_parameter=True, relative_step=True, warmup_init=True, lr=None)

    def step(tokens, labels):
        optimizer.zero_grad()
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randint(0, 200, (4, 16), device=device), torch.randint(0, 3, (4,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
