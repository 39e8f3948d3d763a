"""diffusers DDPM step whose noise comes from a generator of its own."""
# needs: diffusers
import torch
from diffusers import DDPMScheduler, UNet2DModel


def make(device="cuda"):
    unet = UNet2DModel(sample_size=8, in_channels=2, out_channels=2, layers_per_block=1, block_out_channels=(16,),
                       norm_num_groups=8, down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",)).to(device).eval()
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    generator = torch.Generator(device).manual_seed(5)
    place = torch.tensor([400], device=device)

    @torch.no_grad()
    def denoise(sample):
        noise = unet(sample, place.expand(sample.shape[0])).sample
        return scheduler.step(noise, 400, sample, generator=generator).prev_sample

    return {"fn": denoise, "inputs": lambda: (torch.randn(3, 2, 8, 8, device=device),), "kind": "sampler"}
