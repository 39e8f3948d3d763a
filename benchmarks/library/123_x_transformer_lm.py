"""x-transformers decoder with rotary positions and RMS norms: autoregressive loss."""
# needs: x-transformers
import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper


def make(device="cuda"):
    decoder = Decoder(dim=48, depth=2, heads=4, attn_dim_head=12, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True,
                      attn_qk_norm=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=90, max_seq_len=32, attn_layers=decoder)).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), capturable=device != "cpu")

    def step(tokens):
        loss = model(tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randint(0, 90, (3, 21), device=device),), "kind": "training_step"}
