"""timm's cosine schedule with warm-up, updated by the number of the step; a tiny EfficientViT."""
# needs: timm
import timm
import torch
from timm.scheduler import CosineLRScheduler


def make(device="cuda"):
    model = timm.create_model("test_efficientnet_ln", pretrained=False, num_classes=5, drop_rate=0.0,
                              drop_path_rate=0.0).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = CosineLRScheduler(optimizer, t_initial=50, warmup_t=15, warmup_lr_init=1e-3, t_in_epochs=False)
    state = {"updates": 0}

    def step(images, labels):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        state["updates"] += 1
        scheduler.step_update(state["updates"])
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(4, 3, 48, 48, device=device), torch.randint(0, 5, (4,), device=device)),
            "kind": "training_step"}
