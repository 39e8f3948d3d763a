"""torchaudio wav2vec 2.0 with encoder layer drop: regression of a pooled vector."""
# needs: torchaudio
import torch
from torchaudio.models import wav2vec2_model


def make(device="cuda"):
    model = wav2vec2_model("group_norm", [(16, 10, 5), (16, 3, 2), (16, 3, 2)], False, 32, 0.0, 16, 4, 6, 4, 0.0, 64, 0.0, 0.0,
                           False, 0.5, None).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def step(waves, target):
        pooled = model(waves)[0].mean(1)
        loss = torch.nn.functional.smooth_l1_loss(pooled, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(3, 1600, device=device), torch.randn(3, 32, device=device)),
            "kind": "training_step"}
