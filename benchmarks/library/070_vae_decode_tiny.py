"""diffusers AutoencoderTiny: previews of latents."""
# needs: diffusers
import torch
from diffusers import AutoencoderTiny


def make(device="cuda"):
    vae = AutoencoderTiny(encoder_block_out_channels=(8, 8), decoder_block_out_channels=(8, 8), num_encoder_blocks=(1, 1),
                          num_decoder_blocks=(1, 1), latent_channels=4).to(device).eval()

    @torch.no_grad()
    def preview(latents):
        return (vae.decode(latents).sample / 2 + 0.5).clamp(0, 1)

    return {"fn": preview, "inputs": lambda: (torch.randn(2, 4, 16, 16, device=device),), "kind": "inference"}
