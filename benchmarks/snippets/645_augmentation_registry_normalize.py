"""Image augmentations picked by name from a registry."""
import torch
import torch.nn.functional as F

AUGMENTATIONS = {}
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def augmentation(fn):
    AUGMENTATIONS[fn.__name__] = fn
    return fn


@augmentation
def hflip(img):
    coin = torch.rand(img.shape[0], 1, 1, 1, device=img.device) < 0.5
    return torch.where(coin, img.flip(-1), img)


@augmentation
def brightness(img):
    return img * torch.empty(img.shape[0], 1, 1, 1, device=img.device).uniform_(0.8, 1.2)


@augmentation
def normalize(img):
    mean = img.new_tensor(MEAN).view(1, 3, 1, 1)
    std = img.new_tensor(STD).view(1, 3, 1, 1)
    return (img - mean) / std


@augmentation
def half_size(img):
    return F.interpolate(img, scale_factor=0.5, mode="bilinear", align_corners=False)


class Pipeline:
    def __init__(self, *names):
        unknown = set(names) - AUGMENTATIONS.keys()
        if unknown:
            raise KeyError(f"unknown augmentations: {sorted(unknown)}")
        self.names = names

    def __call__(self, img):
        for name in self.names:
            img = AUGMENTATIONS[name](img)
        return img


def make(device="cuda"):
    pipeline = Pipeline("hflip", "brightness", "half_size", "normalize")

    def inputs():
        return (torch.rand(4, 3, 32, 32, device=device),)

    return {"fn": pipeline, "inputs": inputs, "kind": "inference"}
