"""ELECTRA token detection with Adafactor at a fixed learning rate."""
# needs: transformers
import torch
from transformers import Adafactor, ElectraConfig, ElectraForPreTraining


def make(device="cuda"):
    config = ElectraConfig(vocab_size=180, embedding_size=24, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                           intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    discriminator = ElectraForPreTraining(config).to(device).train()
    optimizer = Adafactor(discriminator.parameters(), lr=2e-3, scale_parameter=False, relative_step=False)

    def detect(tokens, replaced):
        loss = discriminator(input_ids=tokens, labels=replaced).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def inputs():
        return torch.randint(0, 180, (4, 20), device=device), (torch.rand(4, 20, device=device) < 0.15).long()

    return {"fn": detect, "inputs": inputs, "kind": "training_step"}
