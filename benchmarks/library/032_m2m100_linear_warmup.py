"""M2M-100 with label smoothing and transformers' linear schedule with warm-up."""
# needs: transformers
import torch
from transformers import M2M100Config, M2M100ForConditionalGeneration, get_linear_schedule_with_warmup


def make(device="cuda"):
    config = M2M100Config(vocab_size=130, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
                          decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64,
                          encoder_layerdrop=0.0, decoder_layerdrop=0.0, dropout=0.0, attention_dropout=0.0,
                          decoder_start_token_id=2)
    model = M2M100ForConditionalGeneration(config).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, capturable=device != "cpu")
    scheduler = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=12, num_training_steps=60)

    def step(source, target):
        logits = model(input_ids=source, decoder_input_ids=target[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        return loss.detach()

    def inputs():
        return torch.randint(3, 130, (3, 10), device=device), torch.randint(3, 130, (3, 9), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
