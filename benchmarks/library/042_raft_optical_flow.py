"""RAFT: flow between two frames in four refinements."""
# needs: torchvision
import torch
from torchvision.models.optical_flow import raft_small


def make(device="cuda"):
    model = raft_small(weights=None).to(device).eval()

    @torch.inference_mode()
    def flow(first, second):
        return model(first, second, num_flow_updates=4)[-1]

    def inputs():
        first = torch.rand(1, 3, 128, 128, device=device) * 2 - 1
        return first, torch.roll(first, 3, -1)

    return {"fn": flow, "inputs": inputs, "kind": "inference"}
