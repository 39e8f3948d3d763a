"""diffusers EMAModel with its default warm-up beside a VAE that is trained on images."""
# needs: diffusers
import torch
from diffusers import AutoencoderKL
from diffusers.training_utils import EMAModel


def make(device="cuda"):
    vae = AutoencoderKL(in_channels=3, out_channels=3, down_block_types=("DownEncoderBlock2D", "DownEncoderBlock2D"),
                        up_block_types=("UpDecoderBlock2D", "UpDecoderBlock2D"), block_out_channels=(8, 16), latent_channels=2,
                        norm_num_groups=4).to(device).train()
    ema = EMAModel(vae.parameters(), use_ema_warmup=True, inv_gamma=1.0, power=0.75)
    optimizer = torch.optim.AdamW(vae.parameters(), lr=2e-3, capturable=device != "cpu")

    def step(images):
        posterior = vae.encode(images).latent_dist
        restored = vae.decode(posterior.sample()).sample
        loss = torch.nn.functional.l1_loss(restored, images) + 1e-3 * posterior.kl().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.step(vae.parameters())
        return loss.detach()

    return {"fn": step, "inputs": lambda: (torch.randn(2, 3, 32, 32, device=device),), "kind": "training_step"}
