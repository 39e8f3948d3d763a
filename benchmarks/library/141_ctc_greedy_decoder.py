"""Greedy CTC decoding of a torchaudio wav2letter model."""
# needs: torchaudio
import torch
from torchaudio.models import Wav2Letter


def make(device="cuda"):
    model = Wav2Letter(num_classes=12, input_type="mfcc", num_features=8).to(device).eval()

    @torch.no_grad()
    def decode(features):
        best = model(features).argmax(1)[0]
        symbols = torch.unique_consecutive(best)
        return symbols[symbols != 0]

    return {"fn": decode, "inputs": lambda: (torch.randn(1, 8, 60, device=device),), "kind": "inference"}
