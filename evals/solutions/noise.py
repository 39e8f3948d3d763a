"""Three sources of change: an own generator, the default one, and a noise level that is a Python number.

The noise is drawn outside of the graph, into its input, by the program's generator. Dropout inside draws the numbers that
eager draws, if the warm-up's draws are undone. Checkpointing reads the random state on the host (torch <= 2.9); with
`preserve_rng_state=False` the second forward pass has other masks, and gradients are wrong. NAdam's momentum schedule is a
number in Python unless it is capturable, and a tensor that begins at one, not at zero.
"""

import torch
import torch.nn.functional as F
from capturing import captured
from program import Trainer, batches


class Graphed(Trainer):
    def __init__(self, device, lr=1e-3):
        super().__init__(device, lr)
        cuda = self.device.type == "cuda"
        self.optimizer = torch.optim.NAdam(self.model.parameters(), lr=lr, capturable=cuda)
        self.clean = batches(1, 0)[0][0].to(self.device)
        self.noisy, self.noise = self.clean.clone(), self.clean.clone()
        self.replay = captured(self.whole, self.device, list(self.model.parameters()), self.made)

    def made(self):
        """Return the optimizer's tensors that begin at zero, and set the others."""
        states = list(self.optimizer.state.values())
        for state in states:
            state["mu_product"].fill_(1)
        return [state[name] for state in states for name in ("step", "exp_avg", "exp_avg_sq")]

    def whole(self):
        self.optimizer.zero_grad(set_to_none=True)
        x = self.model.encode(self.noisy)
        for block in self.model.blocks:
            x = block(x)
        restored = self.model.decode(x)
        loss = F.mse_loss(restored, self.clean)
        loss.backward()
        self.optimizer.step()
        return loss.detach(), (restored.detach() - self.clean).abs().max()

    def step(self, clean):
        self.clean.copy_(clean)
        self.noise.normal_(generator=self.generator)
        level = self.level()  # wrong: level = 0.05
        torch.add(self.clean, self.noise, alpha=level, out=self.noisy)
        self.count += 1
        return self.replay()


def build(device):
    return Graphed(device)
