"""T5 with relative position buckets: loss of a batch of source and target sequences."""
# needs: transformers
import torch
from transformers import T5Config, T5ForConditionalGeneration


def make(device="cuda"):
    config = T5Config(vocab_size=300, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, dropout_rate=0.1,
                      decoder_start_token_id=0, pad_token_id=0)
    model = T5ForConditionalGeneration(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=device != "cpu", capturable=device != "cpu")

    def train_step(source, target):
        optimizer.zero_grad(set_to_none=True)
        loss = model(input_ids=source, labels=target).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randint(1, 300, (4, 20), device=device), torch.randint(1, 300, (4, 12), device=device)

    return {"fn": train_step, "inputs": inputs, "kind": "training_step"}
