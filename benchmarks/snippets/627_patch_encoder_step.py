"""Small patch encoder trained with plain SGD, written as functions over a parameter dict."""
import math

import torch
import torch.nn.functional as F


def init_params(dim, classes, device):
    def w(*shape):
        return (torch.randn(*shape, device=device) / math.sqrt(shape[0])).requires_grad_()
    return {"patch": w(3 * 16, dim), "qkv": w(dim, 3 * dim), "out": w(dim, dim), "head": w(dim, classes)}


def patchify(img, size=4):
    b, c, h, w = img.shape
    img = img.reshape(b, c, h // size, size, w // size, size)
    return img.permute(0, 2, 4, 1, 3, 5).reshape(b, (h // size) * (w // size), c * size * size)


def forward(p, img):
    x = patchify(img) @ p["patch"]
    q, k, v = (x @ p["qkv"]).chunk(3, dim=-1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    x = x + (scores.softmax(-1) @ v) @ p["out"]
    return x.mean(dim=1) @ p["head"]


def make(device="cuda"):
    params = init_params(32, 5, device)
    velocity = {k: torch.zeros_like(v) for k, v in params.items()}

    def step(img, label):
        loss = F.cross_entropy(forward(params, img), label)
        grads = torch.autograd.grad(loss, list(params.values()))
        with torch.no_grad():
            for (name, p), g in zip(params.items(), grads):
                velocity[name].mul_(0.9).add_(g)
                p.sub_(velocity[name], alpha=0.05)
        return loss.detach()

    def inputs():
        return torch.randn(8, 3, 16, 16, device=device), torch.randint(0, 5, (8,), device=device)

    return {"fn": step, "inputs": inputs, "state": lambda: [*params.values(), *velocity.values()], "kind": "training_step"}
