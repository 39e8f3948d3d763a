"""OLMoE with batched expert products: fine-tuning step with the load-balancing loss."""
# needs: transformers
import torch
from transformers import OlmoeConfig, OlmoeForCausalLM


def make(device="cuda"):
    config = OlmoeConfig(vocab_size=128, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=4, num_experts=6, num_experts_per_tok=2, output_router_logits=True,
                         router_aux_loss_coef=0.01, experts_implementation="batched_mm")
    model = OlmoeForCausalLM(config).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(tokens):
        loss = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randint(0, 128, (3, 12), device=device),), "kind": "training_step"}
