"""CLIP: contrastive step on image and text pairs, the temperature clamped afterwards."""
# needs: transformers
import torch
from transformers import CLIPConfig, CLIPModel


def make(device="cuda"):
    text = {"vocab_size": 150, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 16, "eos_token_id": 149, "bos_token_id": 1}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
              "patch_size": 8}
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, capturable=device != "cpu", weight_decay=0.1)

    def step(tokens, pixels):
        optimizer.zero_grad(set_to_none=False)
        loss = model(input_ids=tokens, pixel_values=pixels, return_loss=True).loss
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(0, 4.6)
        return loss.detach()

    def inputs():
        return torch.randint(2, 150, (6, 16), device=device), torch.randn(6, 3, 32, 32, device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
