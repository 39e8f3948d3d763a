"""diffusers UniPC on a UViT-like prior: a step of the sampler in every call, begun again after the last."""
# needs: diffusers
import torch
from diffusers import PriorTransformer, UniPCMultistepScheduler


class Prior:
    def __init__(self, device):
        self.model = PriorTransformer(num_attention_heads=2, attention_head_dim=8, num_layers=2, embedding_dim=16,
                                      num_embeddings=5, additional_embeddings=4).to(device).eval()
        self.scheduler = UniPCMultistepScheduler(prediction_type="sample")
        self.place = 0

    @torch.no_grad()
    def step(self, latent, text, tokens):
        if self.place == 0:
            self.scheduler.set_timesteps(30)
        now = self.scheduler.timesteps[self.place]
        self.place = (self.place + 1) % 30
        guess = self.model(latent, timestep=int(now), proj_embedding=text,
                           encoder_hidden_states=tokens).predicted_image_embedding
        return self.scheduler.step(guess, now, latent).prev_sample


def make(device="cuda"):
    def inputs():
        return torch.randn(2, 16, device=device), torch.randn(2, 16, device=device), torch.randn(2, 5, 16, device=device)

    return {"fn": Prior(device).step, "inputs": inputs, "kind": "sampler"}
