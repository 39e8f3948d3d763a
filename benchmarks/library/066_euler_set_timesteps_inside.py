"""diffusers Euler ancestral: a function that makes its schedule and denoises, as scripts do."""
# needs: diffusers
import torch
from diffusers import EulerAncestralDiscreteScheduler, UNet2DModel


def make(device="cuda"):
    unet = UNet2DModel(sample_size=16, in_channels=1, out_channels=1, layers_per_block=1, block_out_channels=(16,),
                       norm_num_groups=8, down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",)).to(device).eval()
    scheduler = EulerAncestralDiscreteScheduler(num_train_timesteps=200)

    @torch.no_grad()
    def generate(noise):
        scheduler.set_timesteps(4, device=noise.device)
        sample = noise * scheduler.init_noise_sigma
        for t in scheduler.timesteps:
            scaled = scheduler.scale_model_input(sample, t)
            sample = scheduler.step(unet(scaled, t).sample, t, sample).prev_sample
        return sample

    return {"fn": generate, "inputs": lambda: (torch.randn(2, 1, 16, 16, device=device),), "kind": "sampler"}
