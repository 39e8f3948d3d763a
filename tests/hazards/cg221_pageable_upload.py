"""pageable-upload: data in ordinary host memory is copied to the GPU while the graph is recorded."""

import torch
from torch import nn

DEVICE = "cuda"
MEAN = (0.485, 0.456, 0.406)


def inputs():
    """A batch of small images."""
    return (torch.randn(4, 3, 8, 8, device=DEVICE),)


def bad_normalise_pixels(images):
    mean = torch.tensor(MEAN, device=images.device)  # CG221
    return (images - mean.view(1, 3, 1, 1)).square()


class RowPositions(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(8, 8)

    def ids(self, x):
        return torch.arange(x.shape[-1]).to(x.device)  # CG221

    def forward(self, x):
        return x + self.table(self.ids(x))


positions = RowPositions().to(DEVICE).requires_grad_(False)


def bad_position_ids(images):
    return positions(images)


class Vignette(nn.Module):
    def __init__(self):
        super().__init__()
        self.window = torch.hann_window(8)  # no buffer: .to() of the module leaves it on the CPU

    @property
    def weight(self):
        return self.window.to(DEVICE, non_blocking=True)  # CG221

    def forward(self, x):
        return x * self.weight


vignette = Vignette().to(DEVICE)


def bad_forgotten_buffer(images):
    return vignette(images)


fade = torch.zeros(3, device=DEVICE)
fade_plan = torch.linspace(0.1, 0.9, 3)


def bad_literal_and_refill(images):
    box = images.new_tensor([[0.5, 2.0]])  # CG221
    fade.copy_(fade_plan)  # CG221
    return images * fade.view(1, 3, 1, 1) + box.sum()


class Normalise(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))

    def forward(self, x):
        return (x - self.mean.to(x.device)).square()  # a buffer is on the GPU: nothing is copied


normalise = Normalise().to(DEVICE)


def bad_number_into_one_element(images):
    gain = torch.ones(3, device=images.device)
    gain[1] = 0.5  # CG221
    return images * gain.view(1, 3, 1, 1)


def bad_number_at_indices(images):
    brightest = images.flatten(1).argmax(1)
    kept = torch.ones(192, device=images.device)
    kept[brightest] = 0.0  # CG221
    return images.flatten(1) * kept


def good_number_into_a_slice(images):
    gain = torch.ones(3, 2, device=images.device)
    gain[1] = 0.5
    gain[:, 0] = 2.0
    gain[0, 1] *= 3.0
    return images * gain.prod(1).view(1, 3, 1, 1)


def good_registered_buffer(images):
    return normalise(images)


def good_made_on_the_device(images):
    ids = torch.arange(images.shape[-1], device=images.device)
    half = torch.full((), 0.5, device=images.device)
    return images * half + ids + images.new_zeros(3, 1, 1) + torch.linspace(0, 1, 8, device=DEVICE)


def good_already_there(images):
    same = torch.as_tensor(images, device=images.device).to(images.device)
    return same.to(torch.float64).sum(0) * MEAN[0]


pinned_window = torch.hann_window(8).pin_memory()


def good_pinned_and_asynchronous(images):
    return images * pinned_window.to(images.device, non_blocking=True)


def good_element_from_the_device(images):
    gain = torch.ones(3, device=images.device)
    gain[1] = images.mean()
    gain[[True, False, True].index(False)] += 0.5
    return images * gain.view(1, 3, 1, 1)
