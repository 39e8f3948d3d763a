"""VITS: speech from character ids."""
# needs: transformers
import torch
from transformers import VitsConfig, VitsModel


def make(device="cuda"):
    config = VitsConfig(vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, ffn_dim=64, flow_size=32,
                        spectrogram_bins=33, upsample_initial_channel=32, upsample_rates=[4, 4], upsample_kernel_sizes=[8, 8],
                        resblock_kernel_sizes=[3], resblock_dilation_sizes=[[1, 3]], prior_encoder_num_flows=2,
                        prior_encoder_num_wavenet_layers=2, posterior_encoder_num_wavenet_layers=2,
                        use_stochastic_duration_prediction=False)
    model = VitsModel(config).to(device).eval()

    @torch.no_grad()
    def speak(characters):
        return model(input_ids=characters).waveform

    return {"fn": speak, "inputs": lambda: (torch.randint(1, 40, (1, 12), device=device),), "kind": "inference"}
