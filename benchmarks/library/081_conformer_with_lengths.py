"""torchaudio Conformer over padded log-mel frames."""
# needs: torchaudio
import torch
from torchaudio.models import Conformer


def make(device="cuda"):
    model = Conformer(input_dim=24, num_heads=4, ffn_dim=48, num_layers=2, depthwise_conv_kernel_size=7).to(device).eval()

    @torch.no_grad()
    def encode(frames, lengths):
        return model(frames, lengths)[0]

    def inputs():
        lengths = torch.randint(20, 31, (3,), device=device)
        lengths[0] = 30
        return torch.randn(3, 30, 24, device=device), lengths

    return {"fn": encode, "inputs": inputs, "kind": "inference"}
