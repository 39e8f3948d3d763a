"""diffusers DDPM: noise prediction step with the library's add_noise, on a class-conditional UNet."""
# needs: diffusers
import torch
from diffusers import DDPMScheduler, UNet2DModel


def make(device="cuda"):
    unet = UNet2DModel(sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
                       norm_num_groups=8, down_block_types=("DownBlock2D", "DownBlock2D"),
                       up_block_types=("UpBlock2D", "UpBlock2D"), num_class_embeds=10)
    unet = unet.to(device).train()
    scheduler = DDPMScheduler(num_train_timesteps=500, beta_schedule="squaredcos_cap_v2")
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-3, capturable=device != "cpu")

    def step(images, labels):
        noise = torch.randn_like(images)
        times = torch.randint(0, 500, (images.shape[0],), device=images.device)
        noisy = scheduler.add_noise(images, noise, times)
        loss = torch.nn.functional.mse_loss(unet(noisy, times, class_labels=labels).sample, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    def inputs():
        return torch.randn(4, 3, 16, 16, device=device), torch.randint(0, 10, (4,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
