"""diffusers DDIM: each call denoises the kept latent by the next step of the schedule."""
# needs: diffusers
import torch
from diffusers import DDIMScheduler, UNet1DModel


class Sampler:
    def __init__(self, device):
        self.unet = UNet1DModel(sample_size=32, in_channels=4, out_channels=4, block_out_channels=(32, 64),
                                extra_in_channels=64, down_block_types=("DownBlock1DNoSkip", "DownBlock1D"),
                                up_block_types=("UpBlock1D", "UpBlock1DNoSkip"))
        self.unet.to(device).eval()
        self.scheduler = DDIMScheduler(num_train_timesteps=1000)
        self.scheduler.set_timesteps(25)
        self.timesteps = self.scheduler.timesteps.tolist()
        self.done = 0

    @torch.no_grad()
    def __call__(self, latent):
        step = self.timesteps[self.done % 25]
        self.done += 1
        noise = self.unet(latent, torch.full((latent.shape[0],), step, device=latent.device)).sample
        return self.scheduler.step(noise, step, latent).prev_sample


def make(device="cuda"):
    return {"fn": Sampler(device), "inputs": lambda: (torch.randn(2, 4, 32, device=device),), "kind": "sampler"}
