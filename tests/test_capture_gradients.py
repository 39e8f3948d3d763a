"""Gradients go with the tensors of a call, and a program that makes new ones before each call is noticed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import gradients, live, tensors
from cudagraph_skill.capture.guest.agreement import Alone
from user_files import same_interpreter, written

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["same_interpreter"]
pytestmark = pytest.mark.usefixtures("same_interpreter")

PROGRAM = """
import torch

def clip(parameters):
    return torch.nn.utils.clip_grad_norm_(parameters, 1.0)

def shadow(parameters):
    return [weight.detach() for weight in parameters]

class Own(torch.optim.SGD):
    def step(self):
        super().step()

model = torch.nn.Linear(4, 2)
optimizer = Own(model.parameters(), lr=0.1)
for n in range(20):
    optimizer.zero_grad(set_to_none={to_none})
    model(torch.full((3, 4), float(n))).square().mean().backward()
    clip({given})
    optimizer.step()
    shadow({given})
"""


class Silent(Alone):
    """Nobody listens."""

    def progress(self, said: str) -> None:
        """Ignore progress."""


class RanksSeveral(Silent):
    """One of several ranks."""

    several = True


def weight() -> torch.Tensor:
    """Return a tensor with a gradient."""
    made = torch.ones(3, requires_grad=True)
    (made * torch.arange(3.0)).sum().backward()
    return made


def test_a_copy_has_a_gradient_of_its_own() -> None:
    source = weight()
    [copy], named = tensors.copied(([source], {"w": source}))
    assert copy.grad.tolist() == named["w"].grad.tolist() == [0.0, 1.0, 2.0]
    copy.grad.add_(1)
    assert source.grad is not None
    assert source.grad.tolist() == [0.0, 1.0, 2.0]


def test_a_gradient_of_another_dtype_is_copied_too() -> None:
    source = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    if not hasattr(source, "grad_dtype"):
        pytest.skip("this torch has no gradient of another dtype")
    source.grad_dtype = None
    source.grad = torch.full((3,), 2.0)
    copy = tensors.copied(source)
    assert copy.grad.dtype == torch.float32
    assert copy.grad.tolist() == [2.0, 2.0, 2.0]


def test_several_ranks_get_no_note_because_it_takes_calls_of_their_own() -> None:
    class Source:
        class last:  # noqa: N801 - an attribute of a source
            new_gradients = 2

    assert gradients.notes(Source(), RanksSeveral()) == []  # type: ignore[arg-type]


def test_an_intermediate_result_is_copied_without_a_warning() -> None:
    copy = tensors.copied(weight() * 2)
    assert copy.grad is None
    assert copy.requires_grad


def test_a_replay_gets_the_gradients_of_its_call() -> None:
    static, new = weight(), weight()
    kept = static.grad
    assert new.grad is not None
    new.grad.mul_(3)
    assert tensors.refill(([static],), ([new],)) == []
    assert static.grad is kept
    assert static.grad is not None
    assert static.grad.tolist() == [0.0, 3.0, 6.0]


@pytest.mark.parametrize(
    ("target", "edits", "renewed"),
    [
        ("clip", {}, 2),
        ("clip", {"given": "list(model.parameters())"}, 2),
        ("clip", {"to_none": False}, 0),
        ("Own.step", {}, 2),
        ("Own.step", {"to_none": False}, 0),
        ("shadow", {}, 2),
    ],
)
def test_new_gradients_are_counted_where_the_target_gets_the_parameters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, edits: dict[str, Any], renewed: int
) -> None:
    source = PROGRAM.format(**{"to_none": True, "given": "model.parameters()", **edits})
    path = written(tmp_path / "train.py", source)
    seen: dict[str, Any] = {}

    def check(self: Any) -> None:
        self.done = True
        [calls] = self._calls.values()
        seen["renewed"] = len(self._gradients.renewed)
        inputs = live._subject(self._function, self._owner, calls, self._opaque).inputs
        seen["given"] = [[tensor.grad for tensor in tensors.given(inputs(number))] for number in range(len(calls))]

    monkeypatch.setattr(live.Watch, "_check", check)
    live.run({"target": target, "arguments": [str(path)]}, Silent())
    assert seen["renewed"] == renewed
    if target == "clip":
        norms = [sum(float(grad.square().sum()) for grad in call) for call in seen["given"]]
        assert len(norms) >= live.RECORDED
        assert all(norm > 0 for norm in norms)


def test_an_optimizer_s_parameters_are_those_of_all_groups() -> None:
    first, second = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2, bias=False)
    optimizer = torch.optim.SGD([{"params": first.parameters()}, {"params": second.parameters()}], lr=0.1)
    assert len(gradients.optimized(optimizer)) == 3
    assert gradients.optimized(first) == []
