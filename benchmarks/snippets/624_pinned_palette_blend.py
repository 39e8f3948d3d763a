"""Palette blending; the palette lives in host memory and is refreshed on the device each call."""
import torch


class HostTable:
    def __init__(self, rows, cols, device):
        table = torch.linspace(0, 1, rows * cols).reshape(rows, cols)
        self.host = table.pin_memory() if device == "cuda" else table
        self.local = torch.empty(rows, cols, device=device)

    def refresh(self):
        self.local.copy_(self.host, non_blocking=True)
        return self.local


class Blender:
    def __init__(self, device, gamma=2.2):
        self.table = HostTable(16, 3, device)
        self.gamma = gamma

    def nearest(self, img, palette):
        flat = img.permute(0, 2, 3, 1).reshape(-1, 3)
        return torch.cdist(flat, palette).argmin(dim=1)

    def __call__(self, img):
        b, c, h, w = img.shape
        palette = self.table.refresh()
        pick = self.nearest(img, palette)
        quant = palette[pick].reshape(b, h, w, c).permute(0, 3, 1, 2)
        return (0.3 * img + 0.7 * quant).clamp(0, 1) ** (1 / self.gamma)


def make(device="cuda"):
    blend = Blender(device)

    def inputs():
        return (torch.rand(2, 3, 12, 12, device=device),)

    return {"fn": blend, "inputs": inputs, "kind": "inference"}
