"""Noise levels drawn by a fresh NumPy generator, as augmentation code does, before a VQ model of diffusers."""
# needs: diffusers
import numpy as np
import torch
from diffusers import VQModel


def make(device="cuda"):
    model = VQModel(block_out_channels=(8, 16), norm_num_groups=4, latent_channels=3, num_vq_embeddings=32,
                    down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
                    up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"))
    model = model.to(device).eval()
    random = np.random.default_rng()

    @torch.no_grad()
    def restore(images):
        level = float(random.uniform(0.1, 2.0))
        return model.decode(model.encode(images + level * torch.randn_like(images)).latents).sample

    return {"fn": restore, "inputs": lambda: (torch.randn(2, 3, 16, 16, device=device),), "kind": "inference"}
