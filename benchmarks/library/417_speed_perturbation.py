"""torchaudio speed perturbation with three factors ahead of a spectrogram's mean over time."""
# needs: torchaudio
import torch
import torchaudio


def make(device="cuda"):
    perturb = torchaudio.transforms.SpeedPerturbation(8000, [0.9, 1.0, 1.1]).to(device)
    spectrogram = torchaudio.transforms.Spectrogram(n_fft=256, hop_length=128).to(device)
    project = torch.nn.Linear(129, 10).to(device).eval()

    @torch.no_grad()
    def embed(waves):
        changed, _ = perturb(waves)
        return project(torch.log1p(spectrogram(changed)).mean(-1))

    return {"fn": embed, "inputs": lambda: (torch.randn(4, 4000, device=device),), "kind": "inference"}
