"""diffusers DDPMPipeline: the whole pipeline as users call it."""
# needs: diffusers
import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel


def make(device="cuda"):
    unet = UNet2DModel(sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16,),
                       norm_num_groups=8, down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",))
    pipeline = DDPMPipeline(unet, DDPMScheduler(num_train_timesteps=50)).to(device)
    pipeline.set_progress_bar_config(disable=True)

    def draw(weight):
        images = pipeline(batch_size=2, num_inference_steps=3, output_type="np").images
        return torch.as_tensor(images).to(weight.device) * weight

    return {"fn": draw, "inputs": lambda: (torch.rand((), device=device),), "kind": "sampler"}
