"""diffusers Wan video transformer: one prediction with text, fixed grid of frames."""
# needs: diffusers
import torch
from diffusers import WanTransformer3DModel


def make(device="cuda"):
    model = WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=12, in_channels=4,
                                  out_channels=4, text_dim=16, freq_dim=32, ffn_dim=32, num_layers=2,
                                  rope_max_seq_len=32).to(device).eval()

    @torch.no_grad()
    def predict(video, time, prompt):
        return model(hidden_states=video, timestep=time, encoder_hidden_states=prompt).sample

    def inputs():
        video, prompt = torch.randn(1, 4, 2, 8, 8, device=device), torch.randn(1, 7, 16, device=device)
        return video, torch.randint(0, 1000, (1,), device=device), prompt

    return {"fn": predict, "inputs": inputs, "kind": "inference"}
