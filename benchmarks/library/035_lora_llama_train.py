"""LoRA adapters of peft on a Llama: step of the adapters alone."""
# needs: transformers
# needs: peft
import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM


def make(device="cuda"):
    config = LlamaConfig(vocab_size=120, hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=4, use_cache=False)
    lora = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(LlamaForCausalLM(config), lora).to(device).train()
    adapters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=1e-2, capturable=device != "cpu")

    def step(tokens):
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(adapters, 0.3)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randint(0, 120, (2, 16), device=device),), "kind": "training_step"}
