import torch
from torch import nn

net = nn.Linear(16, 4).to("cuda")
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)


def step(x):
    opt.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    opt.step()
    return loss.detach()


for epoch in range(50):
    loss = step(torch.randn(8, 16, device="cuda"))
    print("epoch", epoch, loss.item())
