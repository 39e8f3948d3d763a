"""Spectrogram classifier with torchaudio's FrequencyMasking in the training step."""
# needs: torchaudio
import torch
from torchaudio.transforms import FrequencyMasking


def make(device="cuda"):
    mask = FrequencyMasking(freq_mask_param=20)
    net = torch.nn.Sequential(torch.nn.Conv1d(32, 24, 5, 2), torch.nn.GELU(), torch.nn.Conv1d(24, 6, 5, 2)).to(device).train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)

    def step(spectrogram, labels):
        logits = net(mask(spectrogram)).mean(-1)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(6, 32, 40, device=device), torch.randint(0, 6, (6,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
