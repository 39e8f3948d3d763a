"""Tensors: factories, views, reductions, indexing, dtypes, devices."""
import torch
import torch.nn.functional as F

#? float tensor on cpu, 2 dimensions
a = torch.zeros(2, 3)
#? float tensor on cuda, 2 dimensions
b = torch.zeros(2, 3, device="cuda")
#? float tensor on cuda, 2 dimensions
c = torch.randn((2, 3), device="cuda")
#? int tensor on cuda, 1 dimension
d = torch.arange(5, device="cuda")
#? float tensor on cuda, 1 dimension
torch.arange(0.0, 1.0, 0.1, device="cuda")
#? int tensor on cuda, 2 dimensions
e = torch.randint(0, 5, (2, 3), device="cuda")
#? bool tensor on cuda, 1 dimension
torch.ones(4, dtype=torch.bool, device="cuda")
#? int tensor on cpu, 1 dimension
torch.tensor([1, 2])
#? float tensor on cpu, 0 dimensions
torch.tensor(1.0)
#? float tensor on cuda, 2 dimensions
torch.empty_like(b)
#? int tensor on cuda, 2 dimensions
torch.zeros_like(b, dtype=torch.long)
#? tensor on cuda, 1 dimension
b.new_zeros(4)
#? float tensor on cuda, 2 dimensions
torch.eye(3, device="cuda")
#? float tensor on cuda, 1 dimension
torch.linspace(0, 1, 5, device="cuda")
#? tensor on cuda, 2 dimensions
torch.full((2, 2), 1.5, device="cuda")
#? float tensor on cuda, 2 dimensions
a.cuda()
#? float tensor on cuda, 2 dimensions
a.to("cuda")
#? float tensor on cpu, 2 dimensions
b.cpu()
#? int tensor on cuda, 2 dimensions
b.long()
#? bool tensor on cuda, 2 dimensions
b.to(torch.bool)
#? float tensor on cuda, 2 dimensions
e.to(b)
#? float tensor on cuda, 2 dimensions
b + c
#? float tensor on cuda, 2 dimensions
b + 1
#? float tensor on cuda, 2 dimensions
e / 2
#? int tensor on cuda, 2 dimensions
e * 2
#? float tensor on cuda, 2 dimensions
e * 2.5
#? bool tensor on cuda, 2 dimensions
b > 0
#? bool tensor on cuda, 2 dimensions
~(b > 0)
#? float tensor on cuda, 2 dimensions
b @ c.T
#? float tensor on cuda, 0 dimensions
b.sum()
#? float tensor on cuda, 1 dimension
b.sum(0)
#? float tensor on cuda, 1 dimension
b.sum(dim=1)
#? float tensor on cuda, 2 dimensions
b.mean(1, keepdim=True)
#? int tensor on cuda, 1 dimension
b.argmax(1)
#? int tensor on cuda, 0 dimensions
b.argmax()
#? bool tensor on cuda, 0 dimensions
(b > 0).any()
#? tensor on cuda, 0 dimensions
(b > 0).sum()
largest, places = b.max(1)
#? float tensor on cuda, 1 dimension
largest
#? int tensor on cuda, 1 dimension
places
#? float tensor on cuda, 0 dimensions
b.max()
#? float tensor on cuda, 1 dimension
b[0]
#? float tensor on cuda, 0 dimensions
b[0, 1]
#? float tensor on cuda, 2 dimensions
b[1:]
#? float tensor on cuda, 1 dimension
b[:, 0]
#? float tensor on cuda, 3 dimensions
b[None]
#? float tensor on cuda, 1 dimension
b[..., 0]
#? float tensor on cuda, 1 dimension
b[b > 0]
#? float tensor on cuda, 1 dimension
b.view(-1)
#? float tensor on cuda, 3 dimensions
b.reshape(1, 2, 3)
#? float tensor on cuda, 2 dimensions
b.t()
#? float tensor on cuda, 2 dimensions
b.transpose(0, 1)
#? float tensor on cuda, 3 dimensions
b.unsqueeze(0)
#? float tensor on cuda
b.unsqueeze(0).squeeze(0)
#? float tensor on cuda, 1 dimension
b.flatten()
#? float tensor on cuda, 2 dimensions
torch.cat([b, c])
#? float tensor on cuda, 3 dimensions
torch.stack([b, c])
#? float tensor on cuda, 2 dimensions
torch.where(b > 0, b, c)
#? float tensor on cuda, 2 dimensions
F.relu(b)
#? float tensor on cuda, 2 dimensions
torch.softmax(b, -1)
#? float tensor on cuda, 2 dimensions
b.clone()
#? float tensor on cuda, 2 dimensions
b.detach()
#? float tensor on cuda, 2 dimensions
b.add_(1)
#? float tensor on cuda
torch.einsum("ij,kj->ikj", b, c)
#? int 2
b.dim()
#? int 2
b.ndim
#? int 2
len(b)
#? bool True
b.is_cuda
#? dtype torch.float32
torch.float32
#? number
b.sum().item()
#? size
b.shape
#? number
b.numel()
#? device cuda
torch.device("cuda")
with torch.no_grad():
    #? float tensor on cuda, 2 dimensions
    b * 2
linear = torch.nn.Linear(3, 4).cuda()
#? float tensor on cuda, 2 dimensions
linear(b)
#? float tensor on cuda, 2 dimensions
linear.weight


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.ones(3))

    def forward(self, x):
        return torch.relu(self.inner(x)) * self.scale


model = Model().to("cuda")
#? instance of Model
model
#? float tensor on cuda, 2 dimensions
model(b)
#? float tensor on cuda, 1 dimension
model.scale
#? bool False
model.eval().training
