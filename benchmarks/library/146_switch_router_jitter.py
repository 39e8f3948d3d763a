"""Switch Transformers encoder with router noise, training."""
# needs: transformers
import torch
from transformers import SwitchTransformersConfig, SwitchTransformersEncoderModel


def make(device="cuda"):
    config = SwitchTransformersConfig(vocab_size=90, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_sparse_encoder_layers=1,
                                      num_heads=4, num_experts=4, expert_capacity=8, router_jitter_noise=0.1, dropout_rate=0.0)
    model = SwitchTransformersEncoderModel(config).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(tokens):
        loss = model(input_ids=tokens).last_hidden_state.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randint(0, 90, (2, 14), device=device),), "kind": "training_step"}
