"""ViT-MAE: reconstruction step with random masks of three quarters of the patches."""
# needs: transformers
import torch
from transformers import ViTMAEConfig, ViTMAEForPreTraining


def make(device="cuda"):
    config = ViTMAEConfig(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96, image_size=32,
                          patch_size=8, decoder_hidden_size=32, decoder_num_hidden_layers=1, decoder_num_attention_heads=4,
                          decoder_intermediate_size=64)
    model = ViTMAEForPreTraining(config).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, capturable=device != "cpu")

    def step(pixels):
        loss = model(pixel_values=pixels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(4, 3, 32, 32, device=device),), "kind": "training_step"}
