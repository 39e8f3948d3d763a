"""The wrappers that `skill tune` writes, as far as they run without a GPU."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest.wrappers import graphed


class Net(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]
    """A module with a method that is graphed."""

    @graphed.Graphed
    def forward(self, value: int) -> int:
        """Return the value."""
        return value


def test_each_object_has_graphs_of_its_own() -> None:
    one, other = Net(), Net()
    assert isinstance(Net.forward, graphed.Graphed)
    assert one.forward is one.forward
    assert one.forward is not other.forward
    assert one.forward.__name__ == "forward"


def test_another_mode_is_another_signature() -> None:
    net = Net()
    forward = net.forward._function
    training = graphed._modes(forward)
    assert graphed._modes(net.eval().forward._function) != training
    net.train()
    with torch.no_grad():
        assert graphed._modes(forward) != training
    with torch.inference_mode():
        assert graphed._modes(forward) != training
    assert graphed._modes(forward) == training


def test_a_tensor_of_the_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"CPU tensor of shape \(2, 3\)"):
        graphed._kind(torch.zeros(2, 3))
