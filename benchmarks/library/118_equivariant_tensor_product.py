"""e3nn: spherical harmonics, a fully connected tensor product and a gate on vectors between points."""
# needs: e3nn
import torch
from e3nn import o3
from e3nn.nn import Gate


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate("8x0e", [torch.tanh], "4x0e", [torch.sigmoid], "4x1o")
        self.harmonics = o3.Irreps.spherical_harmonics(2)
        self.product = o3.FullyConnectedTensorProduct("6x0e + 3x1o", self.harmonics, self.gate.irreps_in)

    def forward(self, features, vectors):
        directions = o3.spherical_harmonics(self.harmonics, vectors, normalize=True, normalization="component")
        return self.gate(self.product(features, directions))


def make(device="cuda"):
    layer = Layer().to(device).train()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)

    def step(features, vectors):
        loss = layer(features, vectors).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(20, 15, device=device), torch.randn(20, 3, device=device)),
            "kind": "training_step"}
