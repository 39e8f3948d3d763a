"""AdaLoRA: adapters whose ranks shrink on a schedule."""
# needs: transformers
# needs: peft
import torch
from peft import AdaLoraConfig, get_peft_model
from transformers import RobertaConfig, RobertaForSequenceClassification


def make(device="cuda"):
    config = RobertaConfig(vocab_size=120, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                           num_labels=4, max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    adapters = AdaLoraConfig(init_r=6, target_r=2, tinit=2, tfinal=6, deltaT=2, total_step=40,
                             target_modules=["query", "value"], task_type="SEQ_CLS")
    model = get_peft_model(RobertaForSequenceClassification(config), adapters).to(device).train()
    optimizer = torch.optim.SGD([weight for weight in model.parameters() if weight.requires_grad], lr=0.1)
    done = [0]

    def step(tokens, labels):
        loss = model(input_ids=tokens, labels=labels).loss
        loss.backward()
        optimizer.step()
        model.base_model.update_and_allocate(done[0])
        optimizer.zero_grad()
        done[0] += 1
        return loss.detach()

    def inputs():
        return torch.randint(5, 120, (4, 12), device=device), torch.randint(0, 4, (4,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
