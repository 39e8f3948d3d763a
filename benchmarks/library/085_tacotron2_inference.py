"""torchaudio Tacotron 2: mel frames from characters."""
# needs: torchaudio
import torch
from torchaudio.models import Tacotron2


def make(device="cuda"):
    model = Tacotron2(n_mels=16, n_symbol=30, symbol_embedding_dim=32, encoder_embedding_dim=32, attention_rnn_dim=32,
                      attention_hidden_dim=16, attention_location_n_filter=4, attention_location_kernel_size=7,
                      decoder_rnn_dim=32, decoder_max_step=12, prenet_dim=16, postnet_embedding_dim=16,
                      decoder_early_stopping=True).to(device).eval()
    lengths = torch.full((2,), 9, device=device)

    @torch.inference_mode()
    def speak(characters):
        return model.infer(characters, lengths)[0]

    return {"fn": speak, "inputs": lambda: (torch.randint(0, 30, (2, 9), device=device),), "kind": "inference"}
