"""The ranks of a program agree on each step of the check, and the one that hinders it is named with its line."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill.capture import hub as hubs
from cudagraph_skill.capture import options, ranks, session, torchrun
from cudagraph_skill.capture.guest import torchrun as guest
from cudagraph_skill.capture.guest.ranks import RankReports
from cudagraph_skill.capture.host import Ended
from cudagraph_skill.capture.hub import Hub, Rank
from cudagraph_skill.capture.request import Launch, Request, eager_command, to_guest
from cudagraph_skill.capture.session import Listener
from cudagraph_skill.errors import SkillError
from user_files import line_of, written

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cudagraph_skill.capture.result import CaptureResult

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torchrun comes with torch; CI has it, see conftest.py")


# The hub


class Client:
    """A rank's end of the socket."""

    def __init__(self, hub: Hub, rank: int, world: int = 2) -> None:
        self.link = socket.socket(socket.AF_UNIX)
        self.link.connect(f"\0{hub.address}")
        self.link.settimeout(5)
        self.send({"event": "hello", "rank": rank, "world": world})
        hub.look()

    def send(self, event: dict[str, Any]) -> None:
        """Send an event."""
        self.link.sendall(f"\n{json.dumps(event)}\n".encode())

    def agree(self, name: str, value: Any) -> None:
        """Send a value to agree on."""
        self.send({"event": "agree", "name": name, "value": value})

    def answer(self) -> dict[str, Any]:
        """Return the next message, without the one that greets."""
        text = b""
        while True:
            text += self.link.recv(1 << 16)
            *lines, text = text.split(b"\n")
            for line in lines:
                message: dict[str, Any] = json.loads(line)
                if "request" not in message:
                    return message


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub({"target": "step"}, 60) as made:
        yield made


@pytest.fixture
def client() -> Iterator[Callable[[Hub, int], Client]]:
    """Connect as a rank; closed after the test."""
    with contextlib.ExitStack() as closing:

        def connect(hub: Hub, rank: int) -> Client:
            made = Client(hub, rank)
            closing.callback(made.link.close)
            return made

        yield connect


def test_values_come_back_in_the_order_of_the_ranks_once_all_have_come(hub: Hub, client: Callable[[Hub, int], Client]) -> None:
    second, first = client(hub, 1), client(hub, 0)
    second.agree("rounds", 6)
    hub.look()
    assert hub.ranks[1].waiting == [6]
    first.agree("rounds", 4)
    hub.look()
    assert [each.answer() for each in (first, second)] == [{"values": [4, 6]}] * 2
    assert [rank.point for rank in hub.ranks.values()] == ["", ""]


def test_a_rank_of_the_guest_agrees_by_the_same_words(hub: Hub) -> None:
    link = socket.socket(socket.AF_UNIX)
    link.connect(f"\0{hub.address}")
    reports = RankReports(link)
    reports.send({"event": "hello", "rank": 0, "world": 1})
    hub.look()
    assert reports.answer()["request"] == {"target": "step"}
    hub._answer([hub.ranks[0]], {"values": [0.5]})
    assert reports.most("seconds", 0.5) == 0.5
    reports.progress("capturing")
    reports.result({"verdict": "safe", "agreed": True})
    assert [event["said"] for event in hub.look()] == ["capturing"]
    assert hub.ranks[0].agreed
    os.close(reports._fd)


def test_ranks_that_go_different_ways_are_told_so(hub: Hub, client: Callable[[Hub, int], Client]) -> None:
    clients = [client(hub, 0), client(hub, 1)]
    clients[0].agree("the check, after 4 calls of the target", None)
    clients[1].agree("call 5 of the target", "float32[2]")
    hub.look()
    answers = [each.answer() for each in clients]
    assert answers[0] == answers[1]
    assert answers[0]["verdict"] == "misuse"
    assert "rank 0 to the check, after 4 calls of the target, rank 1 to call 5 of the target" in answers[0]["said"]


@pytest.mark.parametrize("end", [{"event": "ended", "how": "exit", "detail": "7", "stack": [], "left_behind": 0}, None])
def test_who_waits_for_a_rank_that_ended_is_told_to_stop(
    hub: Hub, client: Callable[[Hub, int], Client], end: dict[str, Any] | None
) -> None:
    first, second = client(hub, 0), client(hub, 1)
    first.agree("rounds", 4)
    if end:
        second.send(end)
    second.link.close()
    hub.look()
    assert first.answer() == {"verdict": "stopped", "said": "stopped, because rank 1 ended first"}


def test_what_is_no_report_is_counted_and_no_rank_is_taken_twice(hub: Hub, client: Callable[[Hub, int], Client]) -> None:
    client(hub, 0).link.sendall(b'{"event": "result"\nnothing\n[]\n{"event": "agree"}\n{"event": "ended", "how": 1}\n')
    for hello in ({"event": "hello", "rank": 0, "world": 2}, {"event": "hello"}, {"event": "step"}):
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(f"\0{hub.address}")
        stranger.sendall(f"{json.dumps(hello)}\n".encode())
        hub.look()
        stranger.settimeout(5)
        assert stranger.recv(1) == b""
        stranger.close()
    assert hub.unread_lines() == 5 + 3
    assert list(hub.ranks) == [0]


@pytest.mark.parametrize(("go_on", "over"), [(False, True), (True, False)])
def test_nothing_is_waited_for_after_all_have_a_verdict_unless_the_program_goes_on(
    monkeypatch: pytest.MonkeyPatch, client: Callable[[Hub, int], Client], go_on: bool, over: bool
) -> None:
    monkeypatch.setattr(hubs, "GRACE", 0.0)
    with Hub({"go_on": go_on}, 60) as hub:
        clients = [client(hub, 0), client(hub, 1)]
        assert not hub.is_over()
        clients[0].send({"event": "result", "verdict": "safe"})
        hub.look()
        time.sleep(0.01)
        assert hub.is_over()
        clients[1].send({"event": "result", "verdict": "safe"})
        hub.look()
        time.sleep(0.01)
        assert hub.is_over() is over


# One result


def joined(request: Request, answers: list[dict[str, Any]], whole: dict[str, Any] | None = None) -> CaptureResult:
    """Join the ends of ranks, in the order in which they were over: `rank` and parts of `Rank`."""
    with Hub({}, 60) as hub:
        hub.world = len(answers)
        for order, answer in enumerate(answers, 1):
            parts = {"order": order, **answer}
            hub.ranks[answer["rank"]] = Rank(parts.pop("rank"), socket.socket(), **parts)
        end = Ended(None, [], whole or {"how": "done"}, "")
        results = {
            number: session.joined_result(request, result, hub.steps(number), ended)
            for number, (result, ended) in ranks.outcomes(hub, end).items()
        }
        return ranks.together(results, hub)


LAUNCH = Launch(("--standalone", "--nproc-per-node=2"), ())
REQUEST = Request("step", "/usr/bin/python3", ".", program=("train.py",), deadline=9, launch=LAUNCH)


def result(verdict: str, said: str = "", agreed: bool = True) -> dict[str, Any]:
    return {"verdict": verdict, "said": said or verdict, "agreed": agreed}


def late(*stack: tuple[str, int, str]) -> dict[str, Any]:
    return {"how": "deadline", "detail": "9 s", "stack": [list(frame) for frame in stack], "left_behind": 0}


DIED = {"how": "signal", "detail": "SIGSEGV", "stack": [["train.py", 5, "step"]], "left_behind": 0}
COLLECTIVE = ("/v/lib/python3/site-packages/torch/distributed/c10d.py", 9, "all_reduce")
LOST = "the program raised DistBackendError: NCCL error: remote process exited"


def verdicts(found: CaptureResult) -> list[str]:
    return [row["verdict"] for row in found.ranks]


def test_ranks_that_say_the_same_are_one_result() -> None:
    found = joined(REQUEST, [{"rank": 1, "result": result("safe")}, {"rank": 0, "result": result("safe")}])
    assert (found.verdict, found.said, found.notes) == ("safe", "safe; on all 2 ranks", [])
    assert [row["rank"] for row in found.ranks] == [0, 1]


def test_the_worst_verdict_that_all_came_to_decides() -> None:
    found = joined(REQUEST, [{"rank": 0, "result": result("safe")}, {"rank": 1, "result": result("silent_wrong", "off by 2")}])
    assert (found.verdict, found.said) == ("silent_wrong", "on rank 1 of 2: off by 2")
    assert found.notes == ["rank 0: safe: safe"]


def test_a_rank_kept_from_its_replays_does_not_decide() -> None:
    found = joined(REQUEST, [{"rank": 0, "result": result("stopped")}, {"rank": 1, "result": result("capture_error")}])
    assert (found.verdict, verdicts(found)) == ("capture_error", ["stopped", "capture_error"])


def test_an_explanation_that_hangs_does_not_cost_the_verdict() -> None:
    draft = {"draft": result("capture_error", "fails at capture"), "ended": late(COLLECTIVE)}
    found = joined(REQUEST, [{"rank": 1, **draft}, {"rank": 0, "draft": result("stopped"), "ended": late(COLLECTIVE)}])
    assert (found.verdict, found.said) == ("capture_error", "on rank 1 of 2: fails at capture")
    assert any("the deadline of 9 s" in note for note in found.notes)


def test_the_first_rank_that_ended_is_named_and_not_the_one_that_noticed_it() -> None:
    noticed = {"rank": 0, "result": result("error_in_eager", LOST, agreed=False)}
    for ends in ([noticed, {"rank": 1, "ended": DIED}], [{"rank": 1, "ended": DIED}, noticed], [{"rank": 1, "ended": DIED}]):
        found = joined(REQUEST, ends + ([] if noticed in ends else [{"rank": 0, "order": 0}]))
        assert found.said.startswith("on rank 1 of 2: the process died of SIGSEGV; it was at train.py:5 in step")
        assert verdicts(found) == ["stopped", "error_in_eager"]


def test_a_rank_that_hangs_is_told_from_those_that_wait_for_it() -> None:
    hangs = {"rank": 1, "ended": late(("train.py", 7, "step"))}
    for waits in ({"point": "the verdict"}, {"ended": late(("train.py", 9, "step"), COLLECTIVE)}):
        other = {"rank": 0, "ended": late(("train.py", 9, "step")), **waits}
        found = joined(REQUEST, [other, hangs])
        assert "it had not come back after 9 s; it was at train.py:7 in step" in found.said
        assert found.ranks[0]["summary"].startswith("waited for rank 1")
        assert found.ranks[0]["summary"].endswith(("at the verdict", "at train.py:9"))


def test_where_all_wait_each_is_named_with_its_line() -> None:
    ends = [{"rank": number, "ended": late(("train.py", 7 + number, "step"), COLLECTIVE)} for number in (0, 1)]
    found = joined(REQUEST, ends)
    assert verdicts(found) == ["error_in_eager", "error_in_eager"]
    assert "train.py:7" in found.said
    assert "train.py:8" in found.notes[0]


def test_a_failure_of_communication_on_all_ranks_is_one_of_all() -> None:
    both = [{"rank": number, "result": result("error_in_eager", LOST, agreed=False)} for number in (0, 1)]
    assert joined(REQUEST, both).said == f"{LOST}; on all 2 ranks"


def test_a_rank_that_was_killed_from_outside_is_told() -> None:
    found = joined(REQUEST, [{"rank": 1}, {"rank": 0, "result": result("stopped", agreed=False)}])
    assert (found.verdict, found.said.partition(",")[0]) == ("lacking", "on rank 1 of 2: its process was killed from outside")


def test_of_equal_verdicts_the_rank_that_names_a_line_decides(tmp_path: Path) -> None:
    main = written(tmp_path / "train.py", "def step(x):\n    return x * 2\n")
    cause = {"kind": "wrong", "path": str(main), "line": 2, "op": "", "error": "", "said": "differs", "via": [], "first": True}
    causes = [[{**cause, "category": category}] for category in ("value", "frozen-branch")]
    ends = [{"rank": number, "result": {**result("silent_wrong"), "causes": causes[number]}} for number in (0, 1)]
    found = joined(REQUEST, ends)
    assert found.said.startswith("on rank 1 of 2")
    assert f"({main}:2 " in found.notes[0]


def test_a_rank_that_never_began_and_a_bound_of_all_are_told() -> None:
    with Hub({}, 60) as hub:
        hub.world, hub.ranks[0] = 2, Rank(0, socket.socket(), result=result("misuse", agreed=False), order=1)
        assert ranks.outcomes(hub, Ended(None, [], {"how": "cancelled"}, ""))[1][0] == {
            "verdict": "stopped",
            "said": "it never began",
        }
    whole = {"how": "memory", "detail": "3 GiB of 2 GiB", "stack": [], "left_behind": 0}
    found = joined(REQUEST._replace(memory=2 << 30), [{"rank": 0, "order": 0}, {"rank": 1, "order": 0}], whole)
    assert found.verdict == "lacking"
    assert found.said.startswith("it needed more than 2 GB")


@pytest.mark.parametrize(
    ("ended", "output", "verdict", "said"),
    [
        ({"how": "exit", "detail": "2"}, "usage\ntorchrun: error: no --x\n", "misuse", "(exit 2): torchrun: error: no --x"),
        ({"how": "exit", "detail": "1"}, "", "lacking", "torchrun ended before any rank began (exit 1)"),
        ({"how": "deadline", "detail": "9 s"}, "", "lacking", "torchrun had started no rank by the deadline"),
    ],
)
def test_a_torchrun_that_starts_no_rank_is_told(ended: dict[str, Any], output: str, verdict: str, said: str) -> None:
    told = ranks.not_begun(Ended(None, [], ended, output))
    assert told["verdict"] == verdict
    assert said in told["said"]


# The command


@pytest.mark.parametrize(
    ("line", "divided"),
    [
        (
            "--standalone --nproc-per-node=2 train.py --lr 1",
            (["--standalone", "--nproc-per-node=2"], ["train.py", "--lr", "1"]),
        ),
        ("--nproc_per_node 2 -m pkg.train -x", (["--nproc_per_node", "2"], ["-m", "pkg.train", "-x"])),
        ("--module -r3 -t 3 pkg.train", (["-r3", "-t", "3"], ["-m", "pkg.train"])),
        ("train.py -m", ([], ["train.py", "-m"])),
    ],
)
def test_options_of_torchrun_are_told_from_the_program(line: str, divided: tuple[list[str], list[str]]) -> None:
    assert torchrun.divided(line.split()) == divided


@pytest.mark.parametrize(
    ("line", "nproc", "launch"),
    [
        ("python -X dev train.py --lr 1", 2, Launch(("--standalone", "--nproc-per-node=2"), ("-X", "dev"))),
        ("python -X dev train.py", None, None),
        ("{torchrun} --nproc-per-node 2 train.py", None, Launch(("--nproc-per-node", "2"), ())),
        ("{torchrun} --nproc-per-node=2 train.py", 2, Launch(("--nproc-per-node=2",), ())),
        ("{torchrun} --role x train.py", 3, Launch(("--role", "x", "--nproc-per-node=3"), ())),
        ("python -m torch.distributed.run --nproc-per-node gpu train.py", None, Launch(("--nproc-per-node", "gpu"), ())),
        ("python -m torch.distributed.run train.py", None, Launch(("--nproc-per-node=1",), ())),
    ],
)
def test_a_command_says_how_many_ranks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, nproc: int | None, launch: Launch | None
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "train.py", "")
    script = written(tmp_path / "bin/torchrun", f"#!{sys.executable}\n")
    script.chmod(0o755)
    command = options.parse(line.format(torchrun=script).split())
    assert options.launched(command, nproc) == launch
    assert command.program[0] == "train.py"
    assert command.python == (sys.executable if "{torchrun}" in line else "python")


def test_a_torchrun_that_is_no_python_script_has_the_interpreter_of_the_environment(tmp_path: Path) -> None:
    script = written(tmp_path / "torchrun", "#!/bin/sh -e\n")
    script.chmod(0o755)
    assert torchrun.interpreter(str(script)) == ""
    with pytest.raises(SkillError, match="there is no such command"):
        torchrun.interpreter(str(tmp_path / "gone/torchrun"))


@pytest.mark.parametrize(
    ("nodes", "count", "verdict", "said"),
    [
        (2, 8, "misuse", "torchrun was given --nnodes 1:2"),
        (1, 1, "lacking", "torch sees 1 GPU here, and 2 ranks need one each"),
        (1, 2, "", ""),
    ],
)
def test_fewer_gpus_and_other_machines_are_told_before_a_rank_begins(
    monkeypatch: pytest.MonkeyPatch, nodes: int, count: int, verdict: str, said: str
) -> None:
    class Torchrun:
        nnodes, nproc_per_node = f"1:{nodes}", "2"

        @staticmethod
        def parse_min_max_nnodes(_: str) -> tuple[int, int]:
            return 1, nodes

        determine_local_world_size = int

    monkeypatch.setattr(guest, "gpus", lambda: (count, ""))
    told = guest._unfit(Torchrun, Torchrun)
    assert told[0] == verdict
    assert said in told[1]


def test_the_same_program_without_a_graph_is_a_torchrun_command() -> None:
    assert eager_command(REQUEST) == ("/usr/bin/python3 -m torch.distributed.run --standalone --nproc-per-node=2 train.py")
    request = REQUEST._replace(program=("-m", "pkg.train"), launch=Launch(("--nproc-per-node=2",), ("-O",)))
    assert eager_command(request).endswith("--nproc-per-node=2 --no-python /usr/bin/python3 -O -m pkg.train")


# With torchrun, on the CPU; a runner takes the place of the steps that need a GPU

RUNNER = """
    from cudagraph_skill.capture.guest import live, verdict

    def checked(source, report):
        subject = source.fresh()
        called = []
        for number in range(3):
            args, kwargs = subject.inputs(number)
            called.append(float(subject.call(*args, **kwargs)[0]))
        report.step("eager", "ok", str(report.agree("what the ranks saw", called)))
        found = {"path": __file__, "line": 1, "name": "step"}
        return {"verdict": "safe", "said": "captures", "target": found, "causes": [], "notes": [], "agreed": True}

    verdict.checked = checked
    run = live.run
"""
PROGRAM = """
    import ctypes, os, sys, time

    rank, kind = int(os.environ["RANK"]), sys.argv[1]
    open(f"pid{rank}", "w").write(str(os.getpid()))
    if kind == "forever":
        time.sleep(99)
    if kind == "import" and rank == 1:
        import no_such_module  # import

    import torch
    import torch.distributed as dist

    dist.init_process_group("gloo")

    def step(x):
        y = x[:2] + rank
        if rank == 1 and x[0] == 2 and kind == "crash":
            ctypes.string_at(0)  # crash
        if rank == 1 and x[0] == 2 and kind == "hang":
            time.sleep(99)  # hang
        dist.all_reduce(y)
        return y

    if kind == "never" and rank == 1:
        dist.barrier()  # never
    for number in range(7 - rank if kind == "short" else 16):
        step(torch.full((2 + rank * (number % 2) if kind == "shapes" else 2,), float(number)))
    os.write(1, f"role {os.environ['ROLE_NAME']} left {os.environ.get('CUDAGRAPH_SKILL_RANKS')}\\n".encode())
"""


@pytest.fixture
def examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the program under torchrun, check that nothing of it is left, and return the result and the output."""
    main = written(tmp_path / "train.py", PROGRAM)
    written(tmp_path / "modules/runner.py", RUNNER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUDAGRAPH_SKILL_NO_GPU_NEEDED", "1")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "modules"))
    plain = to_guest
    monkeypatch.setattr(session, "to_guest", lambda request: {**plain(request), "runner": "runner"})

    def run(kind: str, *more: str, deadline: float = 60, **given: Any) -> tuple[CaptureResult, str]:
        request = REQUEST._replace(
            python=sys.executable, folder=str(tmp_path), program=(str(main), kind), deadline=deadline, **given
        )
        launch = Launch((*more, *LAUNCH.options), ())
        output = bytearray()
        with session.Guests() as guests:
            (found,) = session.examine([request._replace(launch=launch)], guests, Listener(str, forward=output.extend))
        assert [pid for pid in _pids(tmp_path) if Path(f"/proc/{pid}").exists()] == []
        return found, output.decode()

    return run


@pytest.mark.slow
@needs_torch
def test_ranks_make_the_same_calls_and_agree(examined: Any) -> None:
    found, output = examined("good", "--role", "trainer", go_on=True)
    assert (found.verdict, found.said) == ("safe", "captures; on all 2 ranks")
    assert [step.said for step in found.steps] == ["[[7.0, 9.0, 11.0], [7.0, 9.0, 11.0]]"]
    assert output.count("role trainer left None") == 2


@pytest.mark.slow
@needs_torch
def test_calls_with_other_shapes_on_one_rank_are_sorted_alike_on_all(examined: Any) -> None:
    found, _ = examined("shapes")
    assert (found.verdict, [row["calls"] for row in found.signatures]) == ("safe", [7, 7])
    assert "rank 0: float32[2] on cpu; rank 1: float32[3] on cpu" in {row["signature"] for row in found.signatures}


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("import", "the program raised ModuleNotFoundError: No module named 'no_such_module'"),
        ("crash", "the process died of SIGSEGV; it was"),
    ],
)
def test_a_rank_that_fails_is_named_with_its_line(examined: Any, kind: str, said: str) -> None:
    found, _ = examined(kind)
    assert (found.verdict, verdicts(found)) == ("error_in_eager", ["stopped", "error_in_eager"])
    assert found.said.startswith(f"on rank 1 of 2: {said}")
    assert f"train.py:{line_of(Path('train.py'), f'# {kind}')}" in found.said


@pytest.mark.slow
@needs_torch
def test_a_rank_that_hangs_or_never_calls_the_target_is_named_at_the_deadline(examined: Any) -> None:
    for kind in ("hang", "never"):
        started = time.monotonic()
        found, _ = examined(kind, deadline=30)  # both ranks import torch first, beside other tests
        assert time.monotonic() - started < 60
        assert found.said.startswith("on rank 1 of 2: it had not come back after 30 s; it was at ")
        assert f"train.py:{line_of(Path('train.py'), f'# {kind}')}" in found.said
        assert found.ranks[0]["summary"].startswith("waited for rank 1")


@pytest.mark.slow
@needs_torch
def test_ranks_that_call_the_target_differently_often_are_told(examined: Any) -> None:
    found, _ = examined("short", skip=2)
    assert found.verdict == "misuse"
    assert "each rank has to call the target equally often" in found.said


@pytest.mark.slow
@needs_torch
def test_nothing_is_left_of_the_ranks_when_the_host_is_killed(examined: Any, tmp_path: Path) -> None:
    assert examined
    words = ["check", "--run", "--nproc", "2", "--target", "step", "--", sys.executable, "train.py", "forever"]
    environment = {**os.environ, "PYTHONPATH": str(Path(session.__file__).parents[2])}
    host = subprocess.Popen(
        [sys.executable, "-m", "cudagraph_skill", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=tmp_path,
    )
    until(lambda: len(_pids(tmp_path)) == 2, 60)
    host.kill()
    host.wait()
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in _pids(tmp_path)), 10)


def _pids(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in folder.glob("pid*") if path.read_text()]


def until(holds: Callable[[], bool], seconds: float) -> bool:
    """Wait for something to be so, at most `seconds`; return whether it is."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    return holds()


@pytest.mark.slow
@needs_torch
def test_an_option_that_torchrun_does_not_know_is_misuse(examined: Any) -> None:
    found, _ = examined("good", "--no-such-option=1")
    assert (found.verdict, list(found.ranks)) == ("misuse", [])
    assert "torchrun ended before any rank began (exit 2): torchrun: error:" in found.said
