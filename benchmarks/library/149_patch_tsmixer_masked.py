"""PatchTSMixer: pretraining with randomly masked patches."""
# needs: transformers
import torch
from transformers import PatchTSMixerConfig, PatchTSMixerForPretraining


def make(device="cuda"):
    config = PatchTSMixerConfig(context_length=48, patch_length=8, patch_stride=8, num_input_channels=3, d_model=16,
                                num_layers=2, mask_type="random", random_mask_ratio=0.4, dropout=0.1)
    model = PatchTSMixerForPretraining(config).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=device != "cpu", foreach=False)

    def step(series):
        loss = model(past_values=series).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(4, 48, 3, device=device),), "kind": "training_step"}
