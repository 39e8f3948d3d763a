"""diffusers Flux transformer: one velocity prediction in bfloat16."""
# needs: diffusers
import torch
from diffusers import FluxTransformer2DModel


def make(device="cuda"):
    model = FluxTransformer2DModel(patch_size=1, in_channels=4, num_layers=1, num_single_layers=1, attention_head_dim=16,
                                   num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32,
                                   axes_dims_rope=(4, 4, 8))
    model = model.to(device, torch.bfloat16).eval()
    rows, columns = torch.meshgrid(torch.arange(4, device=device), torch.arange(4, device=device), indexing="ij")
    image_ids = torch.stack([torch.zeros_like(rows), rows, columns], -1).reshape(16, 3).to(torch.bfloat16)
    text_ids = torch.zeros(6, 3, device=device, dtype=torch.bfloat16)

    @torch.no_grad()
    def velocity(tokens, prompt, pooled, time):
        return model(hidden_states=tokens, encoder_hidden_states=prompt, pooled_projections=pooled, timestep=time,
                     img_ids=image_ids, txt_ids=text_ids).sample

    def inputs():
        tokens, prompt, pooled, time = (torch.randn(1, 16, 4), torch.randn(1, 6, 32), torch.randn(1, 32), torch.rand(1))
        return tuple(each.to(device, torch.bfloat16) for each in (tokens, prompt, pooled, time))

    return {"fn": velocity, "inputs": inputs, "kind": "inference"}
