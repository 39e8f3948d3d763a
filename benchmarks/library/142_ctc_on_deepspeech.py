"""torchaudio DeepSpeech trained with CTC, all lengths on the device."""
# needs: torchaudio
import torch
from torchaudio.models import DeepSpeech


def make(device="cuda"):
    model = DeepSpeech(n_feature=10, n_hidden=32, n_class=9, dropout=0.0).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    frames = torch.full((3,), 20, device=device)

    def step(features, targets, lengths):
        scores = model(features[:, None]).transpose(0, 1)
        loss = torch.nn.functional.ctc_loss(scores, targets, frames, lengths, zero_infinity=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return (torch.randn(3, 20, 10, device=device), torch.randint(1, 9, (3, 5), device=device),
                torch.randint(2, 6, (3,), device=device))

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
