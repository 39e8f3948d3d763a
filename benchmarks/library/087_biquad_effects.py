"""Audio effects of torchaudio in front of an MFCC: a low-pass filter and a compressor of the amplitude."""
# needs: torchaudio
import torch
import torchaudio


def make(device="cuda"):
    mfcc = torchaudio.transforms.MFCC(8000, n_mfcc=12, melkwargs={"n_fft": 128, "hop_length": 64, "n_mels": 20}).to(device)

    @torch.no_grad()
    def prepare(waves):
        filtered = torchaudio.functional.lowpass_biquad(waves, 8000, 1500.0)
        return mfcc(filtered.tanh())

    return {"fn": prepare, "inputs": lambda: (torch.randn(2, 512, device=device),), "kind": "inference"}
