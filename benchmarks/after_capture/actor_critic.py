"""Train a soft actor-critic with wide networks: twin critics with targets, Adam, a batch of a replay buffer on the GPU a step.

`plain` is one graph of the update over compiled losses; most of its time is Adam's, which passes over its state many times.
`after` uses, of references/after-capture.md:

- "Hand-fused kernels: when they pay, and Triton in a capture": a weight's gradient is multiplied a tile at a time and applied
  at once by Adam and to the target: it is never written, and state is read and written once. One kernel between two products.
- "Twin networks and ensembles in one batched product": both critics, and both targets.
- "Branches inside one graph: fork and join": the critics' estimates beside the actor, small updates beside products, the large
  update beside the next product. The actor, which changes last, sees both observations in one pass.

Batches and random numbers are eager's, drawn by the same calls. Sums are added in another order; TF32 rounds what differs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import actor_critic_kernels as kernels
import torch
import torch.nn.functional as F
import triton
from torch import Tensor, nn
from workflows import captured

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE, DTYPE, SEED, STEPS = "cuda", "tf32", 0, 64  # STEPS are compared
BATCH, WIDTH, SEEN, ACTIONS, STORED = 64, 4096, 352, 32, 1 << 16
GAMMA, ALPHA, TAU, RATE, LOW, HIGH = 0.99, 0.2, 0.005, 3e-4, -5.0, 2.0
INPUT = SEEN + ACTIONS
TILE = (32, 32, 4)  # rows and columns of a weight that one program updates, its warps


# Eager: what one would write ------------------------------------------------------------------------------------------


class Network(nn.Module):
    """A perceptron with two hidden layers."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.one, self.two, self.three = nn.Linear(inputs, WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, outputs)

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.three(F.relu(self.two(F.relu(self.one(torch.cat(inputs, -1))))))


def acted(actor: Network, seen: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draw actions, with the logarithm of their probability."""
    mean, spread = actor(seen).chunk(2, -1)
    spread = spread.clamp(LOW, HIGH)
    action = torch.tanh(mean + spread.exp() * noise)
    chance = -0.5 * noise**2 - spread - 0.5 * math.log(2 * math.pi) - torch.log(1 - action**2 + 1e-6)
    return action, chance.sum(-1)


class Training(nn.Module):
    """Networks, optimizers and the replay buffer; a call makes one update with `run`, which is `step` or replays a graph."""

    def __init__(self) -> None:
        super().__init__()
        torch.set_float32_matmul_precision("high")
        torch.manual_seed(SEED)
        with torch.device(DEVICE):
            self.actor = Network(SEEN, 2 * ACTIONS)
            self.critics = nn.ModuleList(Network(INPUT, 1) for _ in range(2))
            self.targets = nn.ModuleList(Network(INPUT, 1) for _ in range(2))
            self.seen, self.later = torch.randn(2, STORED, SEEN)
            self.done_action, self.reward = torch.rand(STORED, ACTIONS) * 2 - 1, torch.randn(STORED)
            self.going_on = (torch.rand(STORED) > 0.02).float()
            self.loss = torch.zeros(())
        self.targets.load_state_dict(self.critics.state_dict())
        self.targets.requires_grad_(requires_grad=False)
        self.critic_adam = torch.optim.Adam(self.critics.parameters(), lr=RATE, capturable=True)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=RATE, capturable=True)
        self.first = [tensor.detach().clone() for tensor in self.parameters()]
        self.critic_loss_of: Callable[..., Tensor] = self.critic_loss
        self.actor_loss_of: Callable[..., Tensor] = self.actor_loss
        self.run: Callable[[], object] = self.step

    def critic_loss(
        self, seen: Tensor, action: Tensor, reward: Tensor, later: Tensor, going_on: Tensor, noise: Tensor
    ) -> Tensor:
        """Return the squared error against the lower of the targets' estimates."""
        with torch.no_grad():
            following, chance = acted(self.actor, later, noise)
            estimates = [target(later, following)[:, 0] for target in self.targets]
            wanted = reward + GAMMA * going_on * (torch.min(*estimates) - ALPHA * chance)
        return sum(F.mse_loss(critic(seen, action)[:, 0], wanted) for critic in self.critics)

    def actor_loss(self, seen: Tensor, noise: Tensor) -> Tensor:
        """Return what the actor minimizes, with the critics as they are."""
        action, chance = acted(self.actor, seen, noise)
        estimates = [critic(seen, action)[:, 0] for critic in self.critics]
        return (ALPHA * chance - torch.min(*estimates)).mean()

    def step(self) -> Tensor:
        """Make one update of critics, actor and targets."""
        which = torch.randint(STORED, (BATCH,), device=DEVICE)
        noise = torch.randn(2, BATCH, ACTIONS, device=DEVICE)
        seen, later = self.seen[which], self.later[which]
        given = (seen, self.done_action[which], self.reward[which], later, self.going_on[which])
        loss = self.critic_loss_of(*given, noise[0])
        self.critic_adam.zero_grad(set_to_none=True)
        loss.backward()
        self.critic_adam.step()
        self.actor_adam.zero_grad(set_to_none=True)
        self.actor_loss_of(seen, noise[1]).backward()
        self.actor_adam.step()
        with torch.no_grad():
            for target, weight in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                target.lerp_(weight, TAU)
        self.loss.copy_(loss.detach())
        return self.loss

    def forward(self) -> Tensor:
        self.run()
        return self.loss

    def start(self) -> Training:
        """Go back to the first weights, an empty optimizer and the first random numbers."""
        with torch.no_grad():
            for tensor, first in zip(self.parameters(), self.first, strict=True):
                tensor.copy_(first)
        for optimizer in (self.critic_adam, self.actor_adam):
            for state in optimizer.state.values():
                for tensor in state.values():
                    tensor.zero_()
        torch.manual_seed(SEED)
        return self


def eager() -> Callable[[], object]:
    """Return the eager update."""
    return Training().start()


def plain(compiled: bool = True) -> Callable[[], object]:
    """Return a replay of the update, captured by hand over torch.compile."""
    program = Training()
    if compiled:
        program.critic_loss_of = torch.compile(program.critic_loss)
        program.actor_loss_of = torch.compile(program.actor_loss)
    program.run = captured(program.step)
    return program.start()


# After: a product of cuBLAS for each large layer, kernels that end one and begin the next, updates without gradients -------


class Stacked:
    """Weights, both averages of Adam and targets of networks: for each layer a tensor of four, for all networks together."""

    def __init__(self, networks: Any) -> None:
        layers = [[getattr(network, name) for network in networks] for name in ("one", "two", "three")]
        kinds = [(layer, kind) for layer in layers for kind in ("weight", "bias")]
        self.first = [torch.stack([getattr(one, kind) for one in layer]).detach() for layer, kind in kinds]
        self.states = [tensor.new_zeros(4, *tensor.shape) for tensor in self.first]
        self.one, self.one_bias, self.two, self.two_bias, self.three, self.three_bias = self.states

    def start(self) -> None:
        """Go back to the first weights and an empty optimizer."""
        for state, first in zip(self.states, self.first, strict=True):
            state.zero_()
            state[::3] = first


class Fused:
    """The update in few kernels and products."""

    def __init__(self, program: Training) -> None:
        self.program, self.side, self.other = program, torch.cuda.Stream(), torch.cuda.Stream()
        self.critics, self.actor = Stacked(program.critics), Stacked([program.actor])
        new = program.reward.new_empty
        self.rows, self.chances, self.errors = new(3 * BATCH, INPUT), new(2 * BATCH), new(2, BATCH)
        self.back, self.actor_back = new(2, BATCH, WIDTH), new(BATCH, WIDTH)
        self.losses, self.slopes, self.steps = new(BATCH), new(BATCH, 2 * ACTIONS), new(()).zero_()
        self.parts = new(2 * WIDTH // 256, BATCH, ACTIONS)

    def start(self) -> None:
        """Go back to the first update."""
        self.critics.start()
        self.actor.start()
        self.steps.zero_()

    def step(self) -> Tensor:
        """Make one update."""
        program, main = self.program, torch.cuda.current_stream()
        which = torch.randint(STORED, (BATCH,), device=DEVICE)
        noise = torch.randn(2, BATCH, ACTIONS, device=DEVICE)
        given = (program.seen, program.later, program.done_action, which, self.rows)
        kernels.gather_kernel[(BATCH,)](*given, BATCH, SEEN, ACTIONS, INPUT, triton.next_power_of_2(INPUT))
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):  # the critics' estimates need no action of the actor
            hidden = self.hidden(self.rows[BATCH : 2 * BATCH], 0)
            out = self.second(hidden, 0)
        one, two, acts = self.act(noise)  # for both observations in one pass: the actor changes only at the end
        following = self.second(self.hidden(self.rows[:BATCH], 3), 3)
        main.wait_stream(self.side)
        tried = self.learn_critics(which, hidden, out, following)
        self.policy(tried, noise, two, acts)
        self.learn_actor(one[BATCH:], two[BATCH:])
        return program.loss

    def hidden(self, rows: Tensor, state: int) -> Tensor:
        """Return the first hidden layer of both critics (0) or targets (3): one product, its bias and ReLU included."""
        weight, bias = self.critics.one[state], self.critics.one_bias[state]
        return torch._addmm_activation(bias.flatten(), rows, weight.flatten(0, 1).t())

    def second(self, hidden: Tensor, state: int) -> Tensor:
        """Return the second hidden layer of both networks without its bias, as one batched product."""
        return torch.bmm(by_net(hidden), self.critics.two[state].mT)

    def act(self, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run the actor on both observations of a row, and put its actions into the critics' inputs."""
        actor, rows = self.actor, self.rows[: 2 * BATCH, :SEEN]
        one = torch._addmm_activation(actor.one_bias[0][0], rows, actor.one[0][0].t())
        two = torch._addmm_activation(actor.two_bias[0][0], one, actor.two[0][0].t())
        out = torch.addmm(actor.three_bias[0][0], two, actor.three[0][0].t())
        given = (out, noise, self.rows, self.chances)
        kernels.act_kernel[(2 * BATCH,)](*given, BATCH, ACTIONS, SEEN, LOW, HIGH, num_warps=1)
        return one, two, out

    def learn_critics(self, which: Tensor, hidden: Tensor, out: Tensor, following: Tensor) -> Tensor:
        """Update critics and targets; return the first hidden layer of the new critics for what the actor tried."""
        program, critics, main = self.program, self.critics, torch.cuda.current_stream()
        ends = (critics.two_bias, critics.three, critics.three_bias)
        given: tuple[Any, ...] = (out, following, *(end[0] for end in ends), *(end[3] for end in ends))
        kept = (program.reward, program.going_on, which, self.chances, self.errors, self.back, self.losses, self.steps)
        kernels.error_kernel[(BATCH,)](*given, *kept, BATCH, WIDTH, GAMMA, ALPHA, num_warps=8)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):  # small updates beside the product
            given = (self.back, out, self.errors, self.losses, *(state for end in ends for state in end))
            kernels.last_kernel[(WIDTH // 32, 2)](*given, program.loss, self.steps, BATCH, WIDTH, 32, RATE, TAU)
        back, on = torch.bmm(self.back, critics.two[0]), by_net(hidden)
        self.other.wait_stream(main)
        with torch.cuda.stream(self.other):
            self.bias(critics.one_bias, back, on, TAU)
        self.weigh(critics.one, back, on, self.rows[BATCH : 2 * BATCH].expand(2, -1, -1), TAU)
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):  # the large update beside the next product, which needs the first layer only
            self.weigh(critics.two, self.back, None, on, TAU)
        main.wait_stream(self.other)
        tried = self.hidden(self.rows[2 * BATCH :], 0)
        main.wait_stream(self.side)
        return tried

    def policy(self, tried: Tensor, noise: Tensor, two: Tensor, acts: Tensor) -> None:
        """Take the gradient through the critics to the actor's second hidden layer."""
        critics, out = self.critics, self.second(tried, 0)
        ends = (critics.two_bias[0], critics.three[0], critics.three_bias[0])
        kernels.choice_kernel[(BATCH,)](out, *ends, self.back, BATCH, WIDTH, num_warps=8)
        back = torch.bmm(self.back, critics.two[0])
        given: tuple[Any, ...] = (back, tried, critics.one[0], self.parts, BATCH, WIDTH, INPUT, ACTIONS, 16, 256)
        kernels.action_kernel[(BATCH // 16, len(self.parts))](*given)
        given = (self.parts, acts, noise, self.actor.three[0], two[BATCH:], self.slopes, self.actor_back)
        sizes = (BATCH, WIDTH, ACTIONS, len(self.parts), 16, 64, ALPHA, LOW, HIGH)
        kernels.policy_kernel[(BATCH // 16, WIDTH // 64)](*given, *sizes, num_warps=8)

    def learn_actor(self, one: Tensor, two: Tensor) -> None:
        """Update the actor: what is small beside the product and the large updates."""
        actor, main = self.actor, torch.cuda.current_stream()
        self.side.wait_stream(main)
        with torch.cuda.stream(self.side):
            self.weigh(actor.three, self.slopes[None], None, two[None], 0.0)
            self.bias(actor.three_bias, self.slopes[None], None, 0.0)
            self.bias(actor.two_bias, self.actor_back[None], None, 0.0)
        back = torch.mm(self.actor_back, actor.two[0][0])[None]
        self.other.wait_stream(main)
        with torch.cuda.stream(self.other):
            self.bias(actor.one_bias, back, one[None], 0.0)
            self.weigh(actor.one, back, one[None], self.rows[None, BATCH : 2 * BATCH, :SEEN], 0.0)
        self.weigh(actor.two, self.actor_back[None], None, one[None], 0.0)
        main.wait_stream(self.side)
        main.wait_stream(self.other)

    def weigh(self, states: Tensor, slope: Tensor, on: Tensor | None, inputs: Tensor, tau: float) -> None:
        """Launch the gradient of a weight with its update."""
        (nets, out, wide), (rows, columns, warps) = states[0].shape, TILE
        hidden = slope if on is None else on
        strides = (*slope.stride()[:2], *hidden.stride()[:2], *inputs.stride()[:2])
        sizes = (BATCH, out, wide, rows, columns, on is not None, RATE, tau)
        given = (slope, hidden, inputs, *states, self.steps, *strides, *sizes)
        kernels.weight_kernel[(out // rows, wide // columns, nets)](*given, num_warps=warps)

    def bias(self, states: Tensor, slope: Tensor, on: Tensor | None, tau: float) -> None:
        """Launch the gradient of a bias with its update."""
        nets, out = states[0].shape
        hidden = slope if on is None else on
        given = (slope, hidden, *states, self.steps, *slope.stride()[:2], *hidden.stride()[:2])
        kernels.bias_kernel[(out // 32, nets)](*given, BATCH, out, 32, on is not None, RATE, tau)


def by_net(hidden: Tensor) -> Tensor:
    """Return the hidden layers of both networks, side by side in each row, one network after the other."""
    return hidden.view(BATCH, 2, WIDTH).transpose(0, 1)


def after() -> Callable[[], object]:
    """Return a replay of the kernels."""
    program = Training()
    fused = Fused(program)
    program.run = captured(fused.step)
    fused.start()
    return program.start()


# How they agree, and what must be moved and computed --------------------------------------------------------------------


def losses(program: Any) -> Tensor:
    """Return the losses of the first steps."""
    return torch.stack([program().clone() for _ in range(STEPS)])


def compared() -> dict[str, float | bool | str]:
    """Compare the critics' losses of 64 updates from the same weights, with the same batches and random numbers."""
    program: Any = eager()
    wanted, found = losses(program), {}
    program.start()
    for weight in program.parameters():
        moved = torch.randint(-1, 2, weight.shape, device=DEVICE, dtype=torch.int32) * (weight != 0)
        weight.data.view(torch.int32).add_(moved)  # by one unit in the last place, up, down or not
    torch.manual_seed(SEED)
    found = {"1 ulp": losses(program), "plain": losses(plain()), "after": losses(after())}
    far = {name: float(((row - wanted).abs() / wanted).max()) for name, row in found.items()}
    answer: dict[str, float | bool | str] = {f"loss off, {name}": value for name, value in far.items()}
    return answer | {"after no further off than 1 ulp": far["after"] <= far["1 ulp"]}


def floor() -> tuple[float, float]:
    """Return bytes that must move and operations that must be done in an update."""
    program = Training()
    critics, actor = (sum(weight.numel() for weight in part.parameters()) for part in (program.critics, program.actor))
    moved = 8 * critics + 6 * actor  # weights, both averages of Adam and the critics' targets: read once and written once
    # Critics: forward and both products back; the same but for their gradients for the actor; targets: forward. The actor: two
    # observations, and both products back. A product and a sum for each weight and row.
    return 4 * moved, 2 * BATCH * ((3 + 2 + 1) * critics + 4 * actor)
