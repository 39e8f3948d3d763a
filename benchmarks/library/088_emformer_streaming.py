"""torchaudio Emformer fed with one segment per call, as a streaming recogniser does."""
# needs: torchaudio
import torch
from torchaudio.models import Emformer


def make(device="cuda"):
    model = Emformer(input_dim=16, num_heads=2, ffn_dim=32, num_layers=2, segment_length=4, left_context_length=8,
                     right_context_length=1)
    model = model.to(device).eval()
    lengths = torch.full((1,), 5, device=device)
    stream = {"states": model.infer(torch.randn(1, 5, 16, device=device), lengths, None)[2]}

    @torch.no_grad()
    def feed(segment):
        output, _, stream["states"] = model.infer(segment, lengths, stream["states"])
        return output

    return {"fn": feed, "inputs": lambda: (torch.randn(1, 5, 16, device=device),), "kind": "inference"}
