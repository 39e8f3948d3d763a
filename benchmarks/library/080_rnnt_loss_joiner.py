"""A small transducer: encoder, predictor and joiner under torchaudio's RNN-T loss."""
# needs: torchaudio
import torch
import torchaudio


class Transducer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.GRU(20, 32, batch_first=True)
        self.embedding = torch.nn.Embedding(12, 32)
        self.joiner = torch.nn.Linear(32, 12)

    def forward(self, frames, history):
        encoded = self.encoder(frames)[0][:, :, None]
        return self.joiner((encoded + self.embedding(history)[:, None]).tanh())


# The loss is compiled code of torchaudio: without that the model can be made, and not trained.
def make(device="cuda"):
    model = Transducer().to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    frames_there = torch.full((2,), 15, dtype=torch.int32, device=device)
    labels_there = torch.full((2,), 4, dtype=torch.int32, device=device)

    def step(frames, labels):
        history = torch.nn.functional.pad(labels, (1, 0))
        logits = model(frames, history.long())
        loss = torchaudio.functional.rnnt_loss(logits, labels, frames_there, labels_there, blank=0)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(2, 15, 20, device=device), torch.randint(1, 12, (2, 4), device=device, dtype=torch.int32)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
