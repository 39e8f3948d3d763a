"""PyG temporal graph network: memory of nodes updated by a batch of events."""
# needs: torch-geometric
import torch
from torch_geometric.nn.models.tgn import IdentityMessage, LastAggregator, TGNMemory


def make(device="cuda"):
    memory = TGNMemory(num_nodes=30, raw_msg_dim=4, memory_dim=16, time_dim=8, message_module=IdentityMessage(4, 16, 8),
                       aggregator_module=LastAggregator()).to(device)
    memory.reset_state()
    memory.train()
    everyone = torch.arange(30, device=device)
    clock = torch.zeros(1, dtype=torch.long, device=device)

    @torch.no_grad()
    def observe(source, target, message):
        clock.add_(10)
        memory.update_state(source, target, clock.expand(len(source)) + 1, message)
        return memory(everyone)[0]

    def inputs():
        source, target = torch.randint(0, 30, (2, 8), device=device)
        return source, target, torch.randn(8, 4, device=device)

    return {"fn": observe, "inputs": inputs, "kind": "inference"}
