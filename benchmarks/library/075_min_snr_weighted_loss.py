"""Velocity prediction with min-SNR weights by diffusers' compute_snr, on a UVit-style UNet."""
# needs: diffusers
import torch
from diffusers import DDPMScheduler, UNet2DConditionModel
from diffusers.training_utils import compute_snr


def make(device="cuda"):
    unet = UNet2DConditionModel(sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 16),
                                down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), norm_num_groups=8,
                                attention_head_dim=4, up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
                                cross_attention_dim=16).to(device).train()
    scheduler = DDPMScheduler(prediction_type="v_prediction", rescale_betas_zero_snr=True)
    scheduler.alphas_cumprod = scheduler.alphas_cumprod.to(device)
    optimizer = torch.optim.SGD(unet.parameters(), lr=0.02)

    def step(latents, noise, times, prompt):
        target = scheduler.get_velocity(latents, noise, times)
        guess = unet(scheduler.add_noise(latents, noise, times), times, encoder_hidden_states=prompt).sample
        snr = compute_snr(scheduler, times)
        weights = torch.stack([snr, 5 * torch.ones_like(times)], 1).min(1).values / (snr + 1)
        loss = ((guess - target).square().mean((1, 2, 3)) * weights).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        latents = torch.randn(4, 4, 8, 8, device=device)
        times, prompt = torch.randint(0, 900, (4,), device=device), torch.randn(4, 3, 16, device=device)
        return latents, torch.randn_like(latents), times, prompt

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
