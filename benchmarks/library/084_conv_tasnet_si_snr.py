"""torchaudio Conv-TasNet trained on two speakers with torchmetrics' SI-SNR."""
# needs: torchaudio
# needs: torchmetrics
import torch
from torchaudio.models import ConvTasNet
from torchmetrics.functional.audio import scale_invariant_signal_noise_ratio as si_snr


def make(device="cuda"):
    model = ConvTasNet(num_sources=2, enc_kernel_size=16, enc_num_feats=32, msk_num_feats=16, msk_num_hidden_feats=32,
                       msk_num_layers=2, msk_num_stacks=1).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=device != "cpu", capturable=device != "cpu")

    def step(sources):
        parts = model(sources.sum(1, keepdim=True))
        straight, crossed = si_snr(parts, sources).mean(1), si_snr(parts.flip(1), sources).mean(1)
        loss = -torch.maximum(straight, crossed).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(2, 2, 800, device=device),), "kind": "training_step"}
