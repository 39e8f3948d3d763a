"""DETR: set prediction loss of two images with three boxes each."""
# needs: transformers
import torch
from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig


def make(device="cuda"):
    backbone = ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 32, 32], depths=[1, 1, 1, 1], layer_type="basic",
                            out_features=["stage4"])
    config = DetrConfig(use_timm_backbone=False, backbone_config=backbone, backbone=None, use_pretrained_backbone=False,
                        d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                        encoder_ffn_dim=64, decoder_ffn_dim=64, num_queries=8, num_labels=5)
    model = DetrForObjectDetection(config).to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(pixels, classes, boxes):
        labels = [{"class_labels": kind, "boxes": box} for kind, box in zip(classes, boxes)]
        loss = model(pixel_values=pixels, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def inputs():
        boxes = torch.rand(2, 3, 4, device=device) * 0.4 + 0.2
        return torch.randn(2, 3, 64, 64, device=device), torch.randint(0, 5, (2, 3), device=device), boxes

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
