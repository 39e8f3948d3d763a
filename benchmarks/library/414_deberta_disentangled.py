"""transformers DeBERTa-v2: token classification with relative positions in buckets and a padding mask."""
# needs: transformers
import torch
from transformers import DebertaV2Config, DebertaV2ForTokenClassification


def make(device="cuda"):
    config = DebertaV2Config(vocab_size=200, hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96,
                             relative_attention=True, position_buckets=8, pos_att_type=["p2c", "c2p"], share_att_key=True,
                             norm_rel_ebd="layer_norm", num_labels=5, max_position_embeddings=64)
    model = DebertaV2ForTokenClassification(config).to(device).eval()

    @torch.no_grad()
    def tag(ids, mask):
        return model(input_ids=ids, attention_mask=mask).logits

    def inputs():
        lengths = torch.randint(8, 21, (3, 1), device=device)
        return torch.randint(5, 200, (3, 20), device=device), (torch.arange(20, device=device)[None] < lengths).long()

    return {"fn": tag, "inputs": inputs, "kind": "inference"}
