"""kornia: a sequence of random augmentations before a classifier."""
# needs: kornia
import kornia.augmentation as K
import torch


def make(device="cuda"):
    augment = K.AugmentationSequential(K.RandomHorizontalFlip(p=0.5), K.RandomAffine(degrees=20.0, p=0.7),
                                       K.ColorJiggle(0.2, 0.2, p=0.5))
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, 2), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(8 * 15 * 15, 4)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)

    def step(images, labels):
        loss = torch.nn.functional.cross_entropy(net(augment(images)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.rand(6, 3, 32, 32, device=device), torch.randint(0, 4, (6,), device=device)),
            "kind": "training_step"}
