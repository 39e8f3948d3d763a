"""A small residual network with DropBlock and stochastic depth from torchvision.ops."""
# needs: torchvision
import torch
from torchvision.ops import Conv2dNormActivation, DropBlock2d, SqueezeExcitation, StochasticDepth


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = Conv2dNormActivation(width, width, 3)
        self.squeeze = SqueezeExcitation(width, width // 4)
        self.block, self.depth = DropBlock2d(0.2, 3), StochasticDepth(0.2, "row")

    def forward(self, x):
        return x + self.depth(self.block(self.squeeze(self.conv(x))))


def make(device="cuda"):
    net = torch.nn.Sequential(Conv2dNormActivation(3, 24, 3, 2), Block(24), Block(24), torch.nn.AdaptiveAvgPool2d(1),
                              torch.nn.Flatten(), torch.nn.Linear(24, 5)).to(device).train()
    optimizer = torch.optim.NAdam(net.parameters(), lr=2e-3, capturable=device != "cpu")

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(net(images), labels)
        net.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(6, 3, 32, 32, device=device), torch.randint(0, 5, (6,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
