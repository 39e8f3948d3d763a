"""diffusers DDIM: a whole denoising loop of five steps in one call."""
# needs: diffusers
import torch
from diffusers import DDIMScheduler, UNet2DModel


def make(device="cuda"):
    unet = UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
                       norm_num_groups=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                       up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    unet = unet.to(device).eval()
    scheduler = DDIMScheduler(num_train_timesteps=100)
    scheduler.set_timesteps(5)
    timesteps = [int(step) for step in scheduler.timesteps]
    places = {step: torch.tensor(step, device=device) for step in timesteps}

    @torch.no_grad()
    def sample(latent):
        for step in timesteps:
            latent = scheduler.step(unet(latent, places[step]).sample, step, latent).prev_sample
        return latent

    return {"fn": sample, "inputs": lambda: (torch.randn(2, 3, 16, 16, device=device),), "kind": "sampler"}
