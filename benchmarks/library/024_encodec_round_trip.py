"""EnCodec: audio to codes and back."""
# needs: transformers
import torch
from transformers import EncodecConfig, EncodecModel


def make(device="cuda"):
    config = EncodecConfig(target_bandwidths=[1.5], sampling_rate=8000, num_filters=8, hidden_size=16, codebook_dim=16,
                           codebook_size=64, num_residual_layers=1, upsampling_ratios=[4, 4, 2], num_lstm_layers=1,
                           normalize=False, chunk_length_s=None)
    model = EncodecModel(config).to(device).eval()
    for layer in model.quantizer.layers:
        layer.codebook.embed.normal_()

    @torch.no_grad()
    def round_trip(audio):
        encoded = model.encode(audio, bandwidth=1.5)
        return model.decode(encoded.audio_codes, encoded.audio_scales).audio_values, encoded.audio_codes

    return {"fn": round_trip, "inputs": lambda: (torch.randn(2, 1, 1024, device=device),), "kind": "inference"}
