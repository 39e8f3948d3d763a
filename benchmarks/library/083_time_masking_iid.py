"""torchaudio TimeMasking with a mask of its own for each example, before a dilated network."""
# needs: torchaudio
import torch
from torchaudio.transforms import AmplitudeToDB, TimeMasking


def make(device="cuda"):
    mask = TimeMasking(time_mask_param=12, iid_masks=True)
    to_db = AmplitudeToDB(top_db=None)
    tcn = torch.nn.Sequential(torch.nn.Conv1d(16, 16, 3, padding=2, dilation=2), torch.nn.ReLU(),
                              torch.nn.Conv1d(16, 8, 1)).to(device)
    optimizer = torch.optim.Adadelta(tcn.parameters(), lr=0.5, capturable=device != "cpu")

    def step(power, target):
        masked = mask(to_db(power)[:, None])[:, 0]
        loss = (tcn(masked).mean(-1) - target).square().mean()
        tcn.zero_grad()
        loss.backward()
        optimizer.step()
        return masked, loss.detach()

    def inputs():
        return torch.rand(5, 16, 50, device=device) + 0.01, torch.randn(5, 8, device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
