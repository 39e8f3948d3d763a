"""Mel filter bank of torchaudio and a Griffin-Lim reconstruction with random phases."""
# needs: torchaudio
import torch
from torchaudio.transforms import GriffinLim, MelScale, Spectrogram


def make(device="cuda"):
    spectrogram = Spectrogram(n_fft=128, hop_length=32).to(device)
    mel = MelScale(n_mels=20, sample_rate=8000, n_stft=65).to(device)
    restore = GriffinLim(n_fft=128, hop_length=32, n_iter=5, momentum=0.5, rand_init=False).to(device)

    @torch.inference_mode()
    def features(waves):
        power = spectrogram(waves)
        return mel(power).clamp(min=1e-5).log(), restore(power)

    return {"fn": features, "inputs": lambda: (torch.randn(2, 1024, device=device),), "kind": "inference"}
