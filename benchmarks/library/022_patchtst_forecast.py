"""PatchTST: forecast of eight channels with instance scaling."""
# needs: transformers
import torch
from transformers import PatchTSTConfig, PatchTSTForPrediction


def make(device="cuda"):
    config = PatchTSTConfig(num_input_channels=8, context_length=64, prediction_length=16, patch_length=8, patch_stride=8,
                            d_model=32, num_hidden_layers=2, num_attention_heads=4, ffn_dim=64, scaling="std", loss="mse")
    model = PatchTSTForPrediction(config).to(device).eval()

    @torch.no_grad()
    def forecast(past):
        return model(past_values=past).prediction_outputs

    return {"fn": forecast, "inputs": lambda: (torch.randn(3, 64, 8, device=device).cumsum(1),), "kind": "inference"}
