"""diffusers ControlNet beside a text-conditional UNet with classifier-free guidance."""
# needs: diffusers
import torch
from diffusers import ControlNetModel, UNet2DConditionModel


def make(device="cuda"):
    unet = UNet2DConditionModel(sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(16, 32),
                                down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), norm_num_groups=8,
                                attention_head_dim=4, up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
                                cross_attention_dim=24).to(device).eval()
    control = ControlNetModel.from_unet(unet, conditioning_embedding_out_channels=(8, 16)).to(device).eval()

    @torch.no_grad()
    def predict(latent, time, prompt, edges):
        twice, both = torch.cat([latent, latent]), torch.cat([edges, edges])
        down, middle = control(twice, time, encoder_hidden_states=prompt, controlnet_cond=both, return_dict=False)
        noise = unet(twice, time, encoder_hidden_states=prompt, down_block_additional_residuals=down,
                     mid_block_additional_residual=middle).sample
        blank, known = noise.chunk(2)
        return blank + 7.5 * (known - blank)

    def inputs():
        return (torch.randn(1, 4, 8, 8, device=device), torch.randint(0, 1000, (), device=device),
                torch.randn(2, 5, 24, device=device), torch.rand(1, 3, 16, 16, device=device))

    return {"fn": predict, "inputs": inputs, "kind": "inference"}
