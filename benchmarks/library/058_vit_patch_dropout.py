"""timm ViT with patch dropout, registers and asymmetric multi-label loss."""
# needs: timm
import torch
from timm.loss import AsymmetricLossMultiLabel
from timm.models.vision_transformer import VisionTransformer


def make(device="cuda"):
    model = VisionTransformer(img_size=32, patch_size=4, embed_dim=48, depth=2, num_heads=4, num_classes=12, reg_tokens=2,
                              patch_drop_rate=0.5).to(device).train()
    criterion = AsymmetricLossMultiLabel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(images, labels):
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        return torch.randn(4, 3, 32, 32, device=device), (torch.rand(4, 12, device=device) < 0.3).float()

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
