"""BERT masked language modelling on padded sentences."""
# needs: transformers
import torch
from transformers import BertConfig, BertForMaskedLM


def make(device="cuda"):
    config = BertConfig(vocab_size=500, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=128)
    model = BertForMaskedLM(config).to(device).eval()

    @torch.inference_mode()
    def fill(input_ids, attention_mask):
        return model(input_ids=input_ids, attention_mask=attention_mask).logits.argmax(-1)

    def inputs():
        ids = torch.randint(5, 500, (4, 24), device=device)
        lengths = torch.randint(10, 25, (4, 1), device=device)
        return ids, (torch.arange(24, device=device)[None] < lengths).long()

    return {"fn": fill, "inputs": inputs, "kind": "inference"}
