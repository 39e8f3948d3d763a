"""Starcoder2 without dropout: gradient checkpointing that keeps no random state."""
# needs: transformers
import torch
from transformers import Starcoder2Config, Starcoder2ForCausalLM


def make(device="cuda"):
    config = Starcoder2Config(vocab_size=140, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                              num_key_value_heads=2, embedding_dropout=0.0, residual_dropout=0.0, use_cache=False)
    net = Starcoder2ForCausalLM(config).to(device).train()
    net.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3, capturable=device != "cpu")

    def learn(ids):
        net.zero_grad()
        out = net(input_ids=ids, labels=ids)
        out.loss.backward()
        opt.step()
        return out.loss.detach()

    return {"fn": learn, "inputs": lambda: (torch.randint(0, 140, (2, 18), device=device),), "kind": "training_step"}
