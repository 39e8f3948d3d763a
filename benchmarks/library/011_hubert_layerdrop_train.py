"""HuBERT with layer drop: frame classification step."""
# needs: transformers
import torch
from transformers import HubertConfig, HubertModel


def make(device="cuda"):
    config = HubertConfig(hidden_size=48, num_hidden_layers=6, num_attention_heads=4, intermediate_size=96,
                          conv_dim=(24, 24, 24), conv_stride=(5, 4, 2), conv_kernel=(10, 4, 4), num_feat_extract_layers=3,
                          layerdrop=0.5, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, apply_spec_augment=False,
                          hidden_dropout=0.0, activation_dropout=0.0, attention_dropout=0.0, feat_proj_dropout=0.0)
    model = HubertModel(config).to(device).train()
    head = torch.nn.Linear(48, 11).to(device)
    parameters = [*model.parameters(), *head.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.02)

    def step(waves, label):
        for parameter in parameters:
            parameter.grad = None
        pooled = model(waves).last_hidden_state.mean(1)
        loss = torch.nn.functional.cross_entropy(head(pooled), label)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(3, 2400, device=device), torch.randint(0, 11, (3,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
