"""Whisper fine-tuning with SpecAugment on the log-mel features."""
# needs: transformers
import torch
from transformers import WhisperConfig, WhisperForConditionalGeneration


def make(device="cuda"):
    config = WhisperConfig(vocab_size=200, num_mel_bins=20, d_model=32, encoder_layers=2, decoder_layers=2,
                           encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                           max_source_positions=50, max_target_positions=32, pad_token_id=0, decoder_start_token_id=1,
                           bos_token_id=1, eos_token_id=2, apply_spec_augment=True, mask_time_prob=0.1, mask_time_length=4)
    model = WhisperForConditionalGeneration(config).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)

    def fit(features, labels):
        optimizer.zero_grad()
        loss = model(input_features=features, labels=labels).loss
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(2, 20, 100, device=device), torch.randint(3, 200, (2, 10), device=device)

    return {"fn": fit, "inputs": inputs, "kind": "training_step"}
