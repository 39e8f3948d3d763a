"""The wrappers that `skill tune` writes, as far as they run without a GPU."""

from __future__ import annotations

import dataclasses
import fcntl
import functools
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import checks, load, ways
from cudagraph_skill.capture.guest.wrappers import graphed

if TYPE_CHECKING:
    from pathlib import Path


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


class Scorer:
    """Methods as users decorate them."""

    @torch.inference_mode()  # type: ignore[untyped-decorator,unused-ignore]
    def score(self, rows: torch.Tensor) -> torch.Tensor:
        """Return twice a view of a view."""
        return rows[1:].transpose(-2, -1) * 2

    @torch.no_grad()  # type: ignore[untyped-decorator,unused-ignore]
    def other(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the rows."""
        return rows

    @torch.inference_mode(False)  # type: ignore[untyped-decorator,unused-ignore]
    def trained(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the rows."""
        return rows


def test_a_call_is_compiled_below_its_decorator_for_inference_mode() -> None:
    compiler, rows = functools.partial(torch.compile, backend="aot_eager"), torch.randn(4, 3)
    made = ways._compiled_by(compiler, subject(Scorer().score, rows))
    assert torch.equal(made(rows), rows[1:].T * 2)
    assert made(rows).is_inference()


def test_only_the_outermost_decorator_for_inference_mode_is_passed_by() -> None:
    scorer = Scorer()
    plain = torch.inference_mode()(torch.relu)
    assert ways.in_inference_mode(subject(plain)) is torch.relu
    assert ways.in_inference_mode(subject(scorer.score)).__self__ is scorer  # type: ignore[union-attr]
    assert ways.in_inference_mode(dataclasses.replace(subject(scorer.score), made=True)) is None
    assert [ways.in_inference_mode(subject(call)) for call in (scorer.other, scorer.trained, torch.relu, Net())] == [None] * 4


def test_a_tensor_of_the_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"CPU tensor of shape \(2, 3\)"):
        graphed._kind(torch.zeros(2, 3))


def subject(call: Any, *args: Any, **roots: Any) -> load.Subject:
    """Return a call, with the objects that it reaches by these names."""
    return load.Subject(call, lambda: (args, {}), None, [("", call), *roots.items()], None, "call")


def test_modules_of_a_subject_that_is_used_again_are_as_before() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    own = net[1].forward = net[1].forward
    used = subject(lambda x: net(x) + 1, torch.ones(1, 2))
    call = used.call
    with ways._in_way({"compiles": False, "compare": True}, "modules", used, modules=["net.0", "net.1"]):
        assert "forward" in vars(net[0])
        assert net[1].forward is not own
    assert "forward" not in vars(net[0])
    assert net[1].forward is own
    assert used.call is call


def test_results_whose_gradients_are_computed_after_the_call_are_seen() -> None:
    net = torch.nn.Linear(2, 1)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = net(x).sum()
        loss.backward()
        return loss

    values = torch.ones(3, 2)
    assert ways._needs_gradients(subject(net, values, net=net))
    assert not ways._needs_gradients(subject(step, values, net=net))
    assert not ways._needs_gradients(subject(lambda x: net(x).detach(), values, net=net))
    with pytest.raises(checks.EagerError):
        ways._needs_gradients(subject(lambda _: 1 / 0, values))


def test_an_error_within_another_one_is_shown_with_the_outer_ones_name() -> None:
    outer = ValueError("the backend failed")
    outer.__cause__ = RuntimeError("no kernel of CUDA")
    assert ways._Failed(outer).shown()["error"] == "ValueError: RuntimeError: no kernel of CUDA"
    assert ways._Failed(ValueError("alone")).shown()["error"] == "ValueError: alone"
    dynamo = ValueError("no fake call\n  Explanation: sizes differ\n  Hint: none")
    assert ways._Failed(dynamo).shown()["error"] == "ValueError: no fake call: sizes differ"


def test_a_way_is_timed_when_no_other_one_sets_up(tmp_path: Path) -> None:
    (tmp_path / "turns").touch()
    wanted, seen, waiting = {"turns": str(tmp_path / "turns")}, [], threading.Event()

    def timed() -> None:
        waiting.set()
        with ways._turn(wanted, fcntl.LOCK_EX):
            seen.append("timed")

    with ways._turn(wanted, fcntl.LOCK_SH), ways._turn(wanted, fcntl.LOCK_SH):  # two set up beside each other
        other = threading.Thread(target=timed)
        other.start()
        waiting.wait()
        other.join(0.2)
        seen.append("set up")
    other.join()
    assert seen == ["set up", "timed"]
