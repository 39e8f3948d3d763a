"""An image optimised by L-BFGS towards the Gram matrices of VGG features."""
# needs: torchvision
import torch
from torchvision.models import vgg11


def gram(features):
    flat = features.flatten(2)
    return flat @ flat.mT / flat.shape[-1]


def make(device="cuda"):
    features = vgg11(weights=None).features[:6].to(device).eval().requires_grad_(False)
    canvas = torch.rand(1, 3, 32, 32, device=device, requires_grad=True)
    optimizer = torch.optim.LBFGS([canvas], lr=0.5, max_iter=3)

    def refine(style):
        goal = gram(features(style))

        def closure():
            optimizer.zero_grad()
            loss = (gram(features(canvas)) - goal).square().mean() * 1e3
            loss.backward()
            return loss

        optimizer.step(closure)
        return canvas.detach()

    return {"fn": refine, "inputs": lambda: (torch.rand(1, 3, 32, 32, device=device),), "kind": "training_step"}
