"""Items that a program draws from an iterator among its arguments are given again, in each copy of the call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")

import torch
from cudagraph_skill.capture.guest import live, streams, tensors
from cudagraph_skill.capture.guest.agreement import Alone
from user_files import line_of, same_interpreter, written

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["same_interpreter"]
pytestmark = pytest.mark.usefixtures("same_interpreter")

PROGRAM = """
import torch

def step(model, batches):
    total = 0.0
    for _ in range(2):
        total += next(batches)["x"].sum()
    return total

def main():
    stream = iter([{"x": torch.full((3,), float(n))} for n in range(100)])
    for n in range(30):
        step(None, stream)

main()
"""


class Silent(Alone):
    """Nobody listens."""

    def progress(self, said: str) -> None:
        """Ignore progress."""


class Loader:
    """What `next` takes, with something to ask for; some wrappers of training libraries have no `__iter__`."""

    position = 7

    def __next__(self) -> int:
        return 3


def test_a_recording_gives_what_the_iterator_gives_and_looks_like_it() -> None:
    kept = streams.Streams(tensors.copied)
    recording: Any = kept.recorded(Loader())
    assert isinstance(recording, Loader)
    assert (next(recording), recording.position) == (3, 7)
    assert kept.drawn
    recording.position = 8
    assert (kept.recorded(Loader()).position, recording.position) == (7, 8)
    assert bool(recording)
    with pytest.raises(TypeError, match="len"):
        len(kept.recorded(Loader()))


def test_arguments_without_an_iterator_stay_the_same_objects() -> None:
    value = ([1, 2], {"a": [torch.ones(1)]})
    assert streams.Streams(tensors.copied).recorded(value) is value
    loader = Loader()
    first, second = streams.Streams(tensors.copied).recorded(([loader], [1]))
    assert type(first[0]) is streams.Recording
    assert second == [1]


def test_items_are_copies_and_come_again_from_the_first() -> None:
    kept, item = streams.Streams(tensors.copied), torch.ones(2)
    source = iter([item, item])
    kept.seen([source])
    recording = kept.recorded(source)
    next(recording)
    item.add_(1)
    next(recording)
    again, once_more = streams.again(recording), tensors.copied(tensors.copied(recording))
    for playback in (again, once_more):
        assert [each.tolist() for each in playback] == [[1.0, 1.0], [2.0, 2.0]]
        assert list(playback) == []


@pytest.mark.parametrize(("calls", "inputs"), [(1, ["[0][0]", "[0][1]"]), (2, [])])
def test_the_items_are_inputs_where_each_call_has_an_iterator_of_its_own(calls: int, inputs: list[str]) -> None:
    kept, source = streams.Streams(tensors.copied), iter([torch.ones(1), torch.ones(1)])
    for _ in range(calls):
        kept.seen([source])
    recording = kept.recorded(source)
    list(recording)
    found = {
        path for path, leaf in tensors.leaves((streams.again(streams.again(recording)),)) if isinstance(leaf, torch.Tensor)
    }
    assert sorted(found) == inputs
    assert tensors.opaque_objects((recording, streams.again(recording))) == []
    assert len(kept.draws()) == (calls > 1)


def test_a_file_is_no_stream_of_data(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        assert streams.Streams(tensors.copied).recorded(file) is file


def test_pinned_memory_is_copied_to_pinned_memory_only_where_there_is_a_gpu() -> None:
    assert not tensors.copied(torch.ones(2)).is_pinned()


def test_a_target_gets_in_each_call_what_its_program_drew_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "train.py", PROGRAM)
    seen: dict[str, Any] = {}

    def check(self: Any) -> None:
        self.done = True
        [calls] = self._calls.values()
        inputs = live._subject(self._function, self._owner, calls, self._opaque).inputs
        seen["sums"] = [[float(self._function(*inputs(number)[0])) for _ in range(2)] for number in range(len(calls))]
        seen["lines"] = [frames[-1].line for frames in self._streams.draws()]

    monkeypatch.setattr(live.Watch, "_check", check)
    live.run({"target": "step", "arguments": [str(path)]}, Silent())
    drawn = range(live.SKIPPED, live.SKIPPED + live.RECORDED)  # call n draws items 2 n and 2 n + 1, three times its number each
    assert seen["sums"] == [[3.0 * (4 * n + 1)] * 2 for n in drawn]
    assert seen["lines"] == [line_of(path, "next(batches)")]
