"""diffusers DPM-Solver++ on a DiT: one solver step per call, with the history that the scheduler keeps."""
# needs: diffusers
import torch
from diffusers import DiTTransformer2DModel, DPMSolverMultistepScheduler


def make(device="cuda"):
    dit = DiTTransformer2DModel(num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4, num_layers=2,
                                sample_size=8, patch_size=2, num_embeds_ada_norm=1000, norm_num_groups=8).to(device).eval()
    scheduler = DPMSolverMultistepScheduler(algorithm_type="dpmsolver++", solver_order=2)
    scheduler.set_timesteps(200)
    scheduler.set_begin_index(0)
    times = scheduler.timesteps.tolist()
    latent = torch.randn(2, 4, 8, 8, device=device)

    @torch.no_grad()
    def advance(labels):
        now = times[scheduler.step_index or 0]
        noise = dit(latent, timestep=torch.full((2,), now, device=device), class_labels=labels).sample
        latent.copy_(scheduler.step(noise, now, latent).prev_sample)
        return latent

    return {"fn": advance, "inputs": lambda: (torch.randint(0, 1000, (2,), device=device),), "kind": "sampler"}
