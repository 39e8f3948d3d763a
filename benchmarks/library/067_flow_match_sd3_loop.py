"""diffusers flow matching: three Euler steps of an SD3 transformer, the sigmas read beforehand."""
# needs: diffusers
import torch
from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel


def make(device="cuda"):
    model = SD3Transformer2DModel(sample_size=8, patch_size=2, in_channels=4, out_channels=4, num_layers=2,
                                  attention_head_dim=8, num_attention_heads=4, joint_attention_dim=32,
                                  caption_projection_dim=32, pooled_projection_dim=16, pos_embed_max_size=8).to(device).eval()
    scheduler = FlowMatchEulerDiscreteScheduler(shift=3.0)
    scheduler.set_timesteps(3)
    times = [time.expand(2).to(device) for time in scheduler.timesteps]
    sigmas = scheduler.sigmas.tolist()

    @torch.inference_mode()
    def sample(latent, prompt, pooled):
        for place, time in enumerate(times):
            flow = model(latent, encoder_hidden_states=prompt, pooled_projections=pooled, timestep=time).sample
            latent = latent + (sigmas[place + 1] - sigmas[place]) * flow
        return latent

    def inputs():
        return torch.randn(2, 4, 8, 8, device=device), torch.randn(2, 6, 32, device=device), torch.randn(2, 16, device=device)

    return {"fn": sample, "inputs": inputs, "kind": "sampler"}
