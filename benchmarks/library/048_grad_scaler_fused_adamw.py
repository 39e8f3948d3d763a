"""A video transformer in float16 with GradScaler and fused AdamW."""
# needs: torchvision
import torch
from torchvision.models.video import MViT
from torchvision.models.video.mvit import MSBlockConfig


def make(device="cuda"):
    blocks = [MSBlockConfig(num_heads=1, input_channels=16, output_channels=32, kernel_q=[3, 3, 3], kernel_kv=[3, 3, 3],
                            stride_q=[1, 1, 1], stride_kv=[1, 2, 2]),
              MSBlockConfig(num_heads=2, input_channels=32, output_channels=32, kernel_q=[3, 3, 3], kernel_kv=[3, 3, 3],
                            stride_q=[1, 2, 2], stride_kv=[1, 1, 1])]
    model = MViT(spatial_size=(32, 32), temporal_size=4, block_setting=blocks, residual_pool=False,
                 residual_with_cls_embed=True, rel_pos_embed=False, proj_after_attn=True, num_classes=5,
                 dropout=0.1).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=device == "cuda")
    scaler = torch.amp.GradScaler(device, init_scale=256.0, growth_interval=3)

    def step(clips, labels):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.float16 if device == "cuda" else torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(clips), labels)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    def inputs():
        return torch.randn(2, 3, 4, 32, 32, device=device), torch.randint(0, 5, (2,), device=device)

    return {"fn": step, "inputs": inputs, "kind": "training_step"}
