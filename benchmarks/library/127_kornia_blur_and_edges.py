"""kornia: Gaussian blur, Sobel edges and unsharp masking of a batch."""
# needs: kornia
import kornia
import torch


def make(device="cuda"):
    sharpen = kornia.filters.UnsharpMask((5, 5), (1.5, 1.5)).to(device)

    @torch.no_grad()
    def process(images):
        blurred = kornia.filters.gaussian_blur2d(images, (7, 7), (2.0, 2.0))
        return kornia.filters.sobel(blurred), sharpen(images), kornia.color.rgb_to_hsv(images)

    return {"fn": process, "inputs": lambda: (torch.rand(2, 3, 40, 40, device=device),), "kind": "inference"}
