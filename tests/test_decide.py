"""`skill decide`: what a trace says about a step, whoever made it; traces here are made with known gaps."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import random
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill import cli
from cudagraph_skill.decide import decide, measured, output, read
from cudagraph_skill.decide.steps import Refused
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from pathlib import Path

    from cudagraph_skill.decide import Decision

MS = 1000.0  # microseconds


class Trace:
    """A Chrome trace in the making: times are in microseconds."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._correlation = 0

    def add(self, cat: str, name: str, start: float, took: float, **args: Any) -> Trace:
        """Add one event that lasts."""
        self.events.append({"ph": "X", "cat": cat, "name": name, "ts": start, "dur": took, "pid": 1, "tid": 1, "args": args})
        return self

    def launch(self, called: float, start: float, took: float, **more: Any) -> Trace:
        """Add a call and the kernel, or the copy, that it launched; `more` has another name, call or device."""
        self._correlation += 1
        name = more.get("name", "kernel")
        self.add("cuda_runtime", more.get("call", "cudaLaunchKernel"), called, 4, correlation=self._correlation)
        cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
        return self.add(cat, name, start, took, correlation=self._correlation, device=more.get("device", 0))

    def write(self, path: Path, **more: Any) -> Path:
        """Write it as torch's profiler does, packed if its name says so."""
        devices = [{"id": number, "name": f"NVIDIA Test {number}"} for number in range(2)]
        text = json.dumps({"schemaVersion": 1, "deviceProperties": devices, **more, "traceEvents": self.events}).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path


def launch_bound(steps: int = 4, every: float = 1 * MS) -> Trace:
    """Return steps of ten kernels of 20 us, each launched when the one before has long ended."""
    trace = Trace()
    for number in range(steps):
        begin = number * every
        trace.add("user_annotation", f"ProfilerStep#{number}", begin, every)
        for item in range(10):
            trace.add("cpu_op", "aten::add", begin + 100 * item, 90)
            trace.launch(begin + 100 * item + 10, begin + 100 * item + 20, 20)
    return trace


def close(*numbers: float) -> Any:
    """Return what equals these numbers but for rounding."""
    return pytest.approx(numbers)


def decided(path: Path, step: str = "") -> Decision:
    """Return the decision on a trace."""
    return decide(measured(read(path), step))


def test_a_step_whose_launches_come_late_becomes_a_graph(tmp_path: Path) -> None:
    decision = decided(launch_bound().write(tmp_path / "trace.json"))
    step = decision.measured.typical
    assert decision.verdict == "graph"
    assert (step.wall, step.busy, step.nodes) == close(1e-3, 200e-6, 10)
    assert (step.late, step.waits, step.other) == close(800e-6, 0, 0)
    assert (decision.fast, decision.slow) == close(210e-6, 213.5e-6)
    assert "graph it: 4.7 to 4.8 times as fast" in decision.said
    assert [name for name, _ in decision.eats] == ["launches that come late"]
    assert decision.measured.left_out == 1


def test_a_packed_trace_and_a_list_of_events_are_traces_too(tmp_path: Path) -> None:
    packed = launch_bound().write(tmp_path / "trace.json.gz")
    (tmp_path / "list.json").write_text(json.dumps(launch_bound().events))
    first, second = decided(packed), decided(tmp_path / "list.json")
    assert first.said == second.said
    assert (first.measured.gpu, second.measured.gpu) == ("NVIDIA Test 0", "")


def test_a_busy_gpu_leaves_nothing_to_gain(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(3):
        trace.add("user_annotation", f"ProfilerStep#{number}", number * MS, MS)
        trace.launch(number * MS + 5, number * MS + 10, 990)
    decision = decided(trace.write(tmp_path / "trace.json"))
    assert decision.verdict == "busy"
    assert "99 %" in decision.said


def test_a_step_of_graphs_is_in_one_already(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(3):
        trace.add("user_annotation", f"ProfilerStep#{number}", number * MS, MS)
        trace.launch(number * MS + 5, number * MS + 10, 400, call="cudaGraphLaunch")
    assert decided(trace.write(tmp_path / "trace.json")).verdict == "already"


def test_work_that_was_launched_in_time_and_waits_would_wait_in_a_graph_too(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(3):
        begin = number * MS
        trace.add("user_annotation", f"ProfilerStep#{number}", begin, MS)
        trace.launch(begin + 5, begin + 10, 100).launch(begin + 15, begin + 800, 190, name="ncclDevKernel_AllReduce_Sum_f32")
    decision = decided(trace.write(tmp_path / "trace.json"))
    step = decision.measured.typical
    assert (step.other, step.collectives) == close(690e-6, 190e-6)
    assert decision.verdict == "little"
    assert "waits for another stream, a copy or another rank" in decision.said


def test_a_gap_after_the_cpu_waited_for_the_gpu_is_told_with_what_waited(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(3):
        begin = number * MS
        trace.add("user_annotation", f"ProfilerStep#{number}", begin, MS)
        trace.launch(begin + 5, begin + 10, 90)
        trace.add("cpu_op", "aten::item", begin + 20, 100).add("cpu_op", "aten::_local_scalar_dense", begin + 21, 98)
        trace.add("cuda_runtime", "cudaStreamSynchronize", begin + 30, 80)
        trace.launch(begin + 400, begin + 410, 90)
    step = decided(trace.write(tmp_path / "trace.json")).measured.typical
    assert step.waits == pytest.approx(310e-6)
    assert step.refused == {Refused("cudaStreamSynchronize", "aten::_local_scalar_dense"): 1}


@pytest.mark.parametrize(
    ("call", "is_refused"),
    [
        ("cudaDeviceSynchronize", True),
        ("cudaEventSynchronize_v3020", True),
        ("cudaMemcpy_v3020", True),
        ("cudaMemcpy2D_v3020_ptsz", True),
        ("cuMemcpyDtoH_v2", True),
        ("cudaMalloc", True),
        ("cudaHostAlloc_v3020", True),
        ("cudaMemcpyAsync", False),
        ("cudaMallocAsync_v11020", False),
        ("cudaEventQuery", False),
        ("cudaLaunchKernel", False),
    ],
)
def test_calls_that_wait_or_allocate_are_what_a_capture_refuses(tmp_path: Path, call: str, is_refused: bool) -> None:
    trace = launch_bound(1)
    trace.add("cuda_runtime", call, 500, 20)
    step = decided(trace.write(tmp_path / "trace.json")).measured.typical
    assert list(step.refused) == [Refused(call, "aten::add")] * is_refused


def test_what_the_cpu_does_besides_stays(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(3):
        begin = number * 10 * MS
        trace.add("user_annotation", f"ProfilerStep#{number}", begin, 10 * MS)
        trace.add("cpu_op", "aten::add", begin + 9.5 * MS, 90)
        trace.launch(begin + 9.5 * MS + 5, begin + 9.5 * MS + 10, 100)
    decision = decided(trace.write(tmp_path / "trace.json"))
    assert decision.measured.typical.host == pytest.approx(9.5e-3)
    assert decision.verdict == "little"
    assert "does something else than operations" in decision.said


def test_steps_that_overlap_on_the_gpu_have_their_own_work(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(4):  # the GPU is half a step behind
        trace.add("user_annotation", f"ProfilerStep#{number}", number * MS, MS)
        trace.launch(number * MS + 10, number * MS + 500, 1000, name=f"kernel{number}")
    step = decided(trace.write(tmp_path / "trace.json")).measured.typical
    assert (step.wall, step.busy, step.nodes) == close(1e-3, 1e-3, 1)
    assert step.late + step.waits + step.other == 0


def test_the_busiest_gpu_is_measured_and_told(tmp_path: Path) -> None:
    trace = launch_bound()
    trace.launch(20, 30, 5000, device=1)
    decision = decided(trace.write(tmp_path / "trace.json"), "ProfilerStep#0")
    assert (decision.measured.gpu, decision.measured.gpus) == ("NVIDIA Test 1", 2)


def test_a_range_of_the_user_s_is_a_step(tmp_path: Path) -> None:
    trace = launch_bound()
    trace.add("user_annotation", "train_step", 100, 500).add("user_annotation", "train_step", 1100, 500)
    decision = decided(trace.write(tmp_path / "trace.json"), "train")
    assert [step.nodes for step in decision.measured.steps] == [5, 5]
    with pytest.raises(SkillError, match="no range of the trace begins with `forward`; it has: ProfilerStep#0"):
        decided(tmp_path / "trace.json", "forward")


def test_a_trace_without_ranges_is_one_step_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = launch_bound()
    trace.events = [event for event in trace.events if event["cat"] != "user_annotation"]
    assert cli.main(["decide", "--trace", str(trace.write(tmp_path / "trace.json"))]) == 1
    out = capsys.readouterr().out
    assert "no step is marked in the trace: taken as one, start-up included, a graph of it is" in out
    assert "name a range with --step" in out


# What people see ------------------------------------------------------------------------------------------------------


def test_the_text_has_the_numbers_and_a_next_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = launch_bound()
    trace.launch(1050, 1060, 5, name="Memcpy HtoD (Pageable -> Device)", call="cudaMemcpyAsync")
    trace.launch(2050, 2060, 5, name="Memcpy HtoD (Pageable -> Device)", call="cudaMemcpyAsync")
    trace.launch(3050, 3060, 5, name="Memcpy HtoD (Pageable -> Device)", call="cudaMemcpyAsync")
    assert cli.main(["decide", "--trace", str(trace.write(tmp_path / "trace.json"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("decide: graph it: ")
    assert [line.split()[0] for line in lines[1:3]] == ["now", "as"]
    assert any("Memcpy HtoD (Pageable -> Device) CG221" in line for line in lines)
    assert lines[-1].endswith("explain CG221")


def test_json_has_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["decide", "--json", "--trace", str(launch_bound().write(tmp_path / "trace.json"))]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["verdict"] == "graph"
    assert data["now"]["nodes"] == 10
    assert data["as_graph"]["fast"] < data["as_graph"]["slow"] < data["now"]["wall"]
    assert (data["steps"]["counted"], data["steps"]["left_out"]) == (3, 1)
    assert data["steps"]["walls"] == close(1e-3, 1e-3, 1e-3)


def test_names_in_a_trace_cannot_steer_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = launch_bound()
    trace.launch(1500, 1510, 500, name="\x1b]0;evil\a\nkernel")
    assert cli.main(["decide", "--trace", str(trace.write(tmp_path / "trace.json"))]) in (0, 1)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert not any(line.startswith("kernel") for line in out.splitlines())


def test_half_a_character_in_a_name_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = launch_bound()
    trace.launch(1500, 1510, 500, name="a\ud800b")
    for more in ([], ["--json"]):
        assert cli.main(["decide", *more, "--trace", str(trace.write(tmp_path / "trace.json"))]) in (0, 1)
        capsys.readouterr().out.encode()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "neither a Chrome trace nor an SQLite export"),
        (b'{"traceEvents": [{"ph": "X"', "or it was cut off"),
        (b"[" * 100_000, "neither a Chrome trace"),
        (b'{"a": 1}', "JSON without traceEvents"),
        (b'{"traceEvents": 3}', "JSON without traceEvents"),
        (b'"text"', "JSON without traceEvents"),
        (b'{"traceEvents": []}', "no kernel of an NVIDIA GPU"),
        (b'{"traceEvents": [1, null, {"ph": "X", "name": 3}]}', "no kernel of an NVIDIA GPU"),
        (b"\x1f\x8bnot gzip at all", "cannot be read"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-12], "cannot be read"),
        (b"SQLite format 3\x00 and no more", "not what `nsys export"),
    ],
)
def test_what_is_no_trace_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    (tmp_path / "trace").write_bytes(content)
    assert cli.main(["decide", "--trace", str(tmp_path / "trace")]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_trace_is_decided_or_refused(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    trace, odd = launch_bound(), list[Any]([None, -1, 1e400, "text", [], {}, True])
    for _ in range(10):
        event = draw.choice(trace.events)
        target = draw.choice([event, event["args"]]) if isinstance(event.get("args"), dict) else event
        target[draw.choice([*target, "device"])] = draw.choice(odd)
    devices = draw.choice([None, 3, [None], [{"id": [], "name": 3}], [{"id": 0}]])
    with contextlib.suppress(SkillError):
        assert decided(trace.write(tmp_path / "trace.json", deviceProperties=devices)).said


@pytest.mark.parametrize(("name", "said"), [("", "is a folder"), ("nowhere", "No such file")])
def test_what_is_not_there_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, said: str) -> None:
    assert cli.main(["decide", "--trace", str(tmp_path / name)]) == 2
    assert said in capsys.readouterr().err


def test_a_trace_that_is_too_large_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudagraph_skill.decide.trace.LARGEST", 1000)
    for name in ("trace.json", "trace.json.gz"):
        with pytest.raises(SkillError, match="profile fewer steps"):
            read(launch_bound().write(tmp_path / name))


def test_a_trace_without_launches_is_refused_because_its_gaps_say_nothing(tmp_path: Path) -> None:
    trace = launch_bound()
    trace.events = [event for event in trace.events if event["cat"] != "cuda_runtime"]
    with pytest.raises(SkillError, match="which calls of the CPU launched its kernels"):
        read(trace.write(tmp_path / "trace.json"))


def test_a_trace_of_another_maker_s_gpu_is_refused(tmp_path: Path) -> None:
    trace = Trace().launch(5, 10, 100, call="hipLaunchKernel")
    with pytest.raises(SkillError, match="AMD GPU"):
        read(trace.write(tmp_path / "trace.json"))


def test_a_trace_of_torch_s_own_profiler_without_a_gpu_says_what_is_missing(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; CI has it and fails without it")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as recorded:
        torch.ones(4) + 1
    recorded.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    with pytest.raises(SkillError, match="no kernel of an NVIDIA GPU: profile with activities"):
        read(tmp_path / "trace.json.gz")


# Nsight Systems -------------------------------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE TARGET_INFO_GPU (vmId INTEGER, id INTEGER, name TEXT);
CREATE TABLE ENUM_CUDA_MEMCPY_OPER (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE ENUM_CUDA_MEM_KIND (id INTEGER PRIMARY KEY, name TEXT, label TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
    correlationId INTEGER, nameId INTEGER, returnValue INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, demangledName INTEGER, shortName INTEGER, graphNodeId INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
    correlationId INTEGER, globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER);
CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);
INSERT INTO TARGET_INFO_GPU VALUES (0, 0, 'NVIDIA H100 80GB HBM3'), (0, 1, 'NVIDIA H100 80GB HBM3');
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (1, 'CUDA_MEMCPY_KIND_HTOD', 'Host-to-Device');
INSERT INTO ENUM_CUDA_MEMCPY_OPER VALUES (2, 'CUDA_MEMCPY_KIND_DTOH', 'Device-to-Host');
INSERT INTO ENUM_CUDA_MEM_KIND VALUES (0, 'CUDA_MEMOPR_MEMORY_KIND_PAGEABLE', 'Pageable');
INSERT INTO ENUM_CUDA_MEM_KIND VALUES (2, 'CUDA_MEMOPR_MEMORY_KIND_DEVICE', 'Device');
INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'void add(float*)'), (3, 'cudaStreamSynchronize_v3020');
INSERT INTO StringIds VALUES (4, 'step'), (5, 'cudaMemcpyAsync_v3020'), (6, 'cudaGraphLaunch_v10000');
"""
MAIN, OTHER = 77 << 24, 78 << 24  # globalPid of two processes


def export(path: Path, statements: str = "", call: int = 1) -> Path:
    """Write an export of three steps of 1 ms: ten kernels of 20 us, launched late, a copy to pageable memory, and a wait."""
    calls, kernels, copies, ranges = list[Any](), list[Any](), list[Any](), list[Any]()
    for number in range(3):
        begin = number * 1_000_000
        ranges.append((begin, begin + 1_000_000, 59, None, MAIN + 5, 4))
        for item in range(10):
            at, launch = begin + item * 100_000 + 10_000, number * 100 + item
            calls.append((at, at + 4000, 0, MAIN + 5, launch, call, 0))
            kernels.append((at + 10_000, at + 30_000, 0, 7, launch, MAIN, 2, 2, None))
        at, launch = begin + 950_000, number * 100 + 50
        calls += [(at, at + 4000, 0, MAIN + 5, launch, 5, 0), (at + 5000, at + 9000, 0, MAIN + 5, launch + 1, 3, 0)]
        copies.append((at + 5000, at + 9000, 0, 7, launch, MAIN, 4, 2, 2, 0))
    tables = {"RUNTIME": calls, "KERNEL": kernels, "MEMCPY": copies}
    filled = {f"CUPTI_ACTIVITY_KIND_{name}": rows for name, rows in tables.items()} | {"NVTX_EVENTS": ranges}
    with closing(sqlite3.connect(path)) as database:
        database.executescript(SCHEMA)
        for table, rows in filled.items():
            database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        database.executescript(statements)
        database.commit()
    return path


def test_an_export_of_nsight_systems_is_read_like_a_trace(tmp_path: Path) -> None:
    decision = decided(export(tmp_path / "report.sqlite"), "step")
    step = decision.measured.typical
    assert decision.verdict == "graph"
    assert (step.wall, step.busy, step.nodes) == close(1e-3, 204e-6, 11)
    assert step.refused == {Refused("cudaStreamSynchronize_v3020", ""): 1, Refused("Memcpy DtoH (Pageable)", ""): 1}
    assert (decision.measured.maker, decision.measured.gpu) == ("Nsight Systems", "NVIDIA H100 80GB HBM3")
    assert [name for name, _ in step.kernels.most_common()] == ["void add(float*)", "Memcpy DtoH (Pageable)"]


def test_launches_of_another_process_are_its_own(tmp_path: Path) -> None:
    other = f"INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (1, 2, 0, {OTHER + 5}, 1, 3, 0);" + (
        f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (5, 900, 1, 7, 1, {OTHER}, 2, 2, NULL);"
    )
    plain, mixed = (decided(export(tmp_path / name, more), "step") for name, more in (("a.sqlite", ""), ("b.sqlite", other)))
    assert mixed.measured.typical == plain.measured.typical
    assert (plain.measured.gpus, mixed.measured.gpus) == (1, 2)


def test_graphs_are_known_by_their_launch_or_by_their_own_table(tmp_path: Path) -> None:
    assert decided(export(tmp_path / "node.sqlite", call=6), "step").verdict == "already"
    graphs = f"""
    DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL; DROP TABLE CUPTI_ACTIVITY_KIND_MEMCPY;
    CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, correlationId INTEGER,
        globalPid INTEGER);
    INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (20000, 400000, 0, 0, {MAIN}), (1020000, 1400000, 0, 100, {MAIN});
    """
    assert decided(export(tmp_path / "graph.sqlite", graphs), "step").verdict == "already"


def test_a_database_that_is_no_export_is_one_sentence(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as database:
        database.execute("CREATE TABLE t (a)")
    with pytest.raises(SkillError, match=re.escape("not what `nsys export --type sqlite` writes: there is no table StringIds")):
        read(tmp_path / "other.sqlite")


def test_a_damaged_export_is_one_sentence(tmp_path: Path) -> None:
    damage = "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = NULL WHERE rowid = 3"
    with pytest.raises(SkillError, match="not what `nsys export"):
        read(export(tmp_path / "report.sqlite", damage))


def test_an_export_is_opened_for_reading_only(tmp_path: Path) -> None:
    path = export(tmp_path / "report.sqlite")
    before = path.read_bytes()
    decided(path, "step")
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.sqlite"]


# What strange traces hold


def test_names_are_shown_as_they_can_be_printed_and_bounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = launch_bound()
    for number, event in enumerate(trace.events):
        event["name"] += ("\ud800", "\x1b[31m", "\u202e", "x" * 5000)[number % 4]
    path = trace.write(tmp_path / "trace.json")
    for more in ([], ["--json"], ["--html", str(tmp_path / "page.html")]):
        assert cli.main(["decide", "--trace", str(path), "--step", "ProfilerStep", *more]) == 0
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) < 6000
        assert not set("\ud800\x1b\u202e") & set(said)
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert not set("\x1b\u202e") & set(page)
    assert len(page) < 100_000


def test_numbers_that_no_clock_gives_are_left_out_and_told(tmp_path: Path) -> None:
    trace = launch_bound()
    kernels = [event for event in trace.events if event["cat"] == "kernel"]
    for event, (key, value) in zip(kernels, (("ts", 10**400), ("dur", 1.7e308), ("dur", -1), ("ts", True)), strict=False):
        event[key] = value
    decision = decide(measured(read(trace.write(tmp_path / "trace.json"))))
    assert decision.measured.unread == 3
    assert any("3 kernels, copies or fills have no usable times" in note for note in output.notes(decision.measured))


def test_launches_are_known_by_their_numbers_only(tmp_path: Path) -> None:
    trace = launch_bound()
    for event in trace.events:
        event["args"].pop("correlation", None)
    with pytest.raises(SkillError, match="does not tell which calls of the CPU launched its kernels"):
        read(trace.write(tmp_path / "none.json"))
    for event in trace.events:
        event["args"]["correlation"] = 1
    with pytest.raises(SkillError, match="does not tell which calls of the CPU launched its kernels"):
        read(trace.write(tmp_path / "same.json"))


def test_kernels_that_take_no_time_are_no_run(tmp_path: Path) -> None:
    trace = launch_bound()
    for event in trace.events:
        event["dur"] = 0 if event["cat"] == "kernel" else event["dur"]
    with pytest.raises(SkillError, match="take no time"):
        read(trace.write(tmp_path / "trace.json"))


def test_times_since_1970_are_as_exact_as_others(tmp_path: Path) -> None:
    trace = launch_bound()
    near = decide(measured(read(trace.write(tmp_path / "near.json")))).measured.typical.busy
    for event in trace.events:
        event["ts"] += 1.7e15
    far = decide(measured(read(trace.write(tmp_path / "far.json")))).measured.typical.busy
    assert far == pytest.approx(near, rel=1e-9)


def test_the_wait_at_the_end_of_a_step_explains_the_gap_of_the_next(tmp_path: Path) -> None:
    trace = Trace()
    for number in range(4):
        begin = number * MS
        trace.add("user_annotation", f"ProfilerStep#{number}", begin, MS)
        trace.launch(begin + 100, begin + 110, 300)
        trace.add("cuda_runtime", "cudaStreamSynchronize", begin + 120, 300)
    step = decide(measured(read(trace.write(tmp_path / "trace.json")))).measured.typical
    assert step.late == 0
    assert step.waits == pytest.approx(700e-6)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SkillError, match="is no regular file"):
        read(tmp_path / "pipe")
    with pytest.raises(SkillError, match="cannot be read: File name too long"):
        read(tmp_path / ("a" * 300))


def test_a_view_in_place_of_a_table_is_not_read(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as database:
        database.execute("CREATE VIEW StringIds AS WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SELECT n FROM t")
    with pytest.raises(SkillError, match="there is no table StringIds"):
        read(tmp_path / "x.sqlite")


def test_the_trace_itself_is_no_place_for_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = launch_bound().write(tmp_path / "trace.json")
    before = path.read_bytes()
    (tmp_path / "link.html").symlink_to(path)
    for more in (["--perfetto", str(path)], ["--html", str(tmp_path / "link.html")]):
        assert cli.main(["decide", "--trace", str(path), *more, "--force"]) == 2
        assert re.search("that is the trace itself|it is a link to", capsys.readouterr().err)
    assert path.read_bytes() == before


def test_steps_of_several_names_are_told(tmp_path: Path) -> None:
    trace = Trace()
    for number, name in enumerate(("train", "train_eval", "train", "train_eval")):
        trace.add("user_annotation", name, number * MS, 900)
        trace.launch(number * MS + 10, number * MS + 20, 100)
    path = trace.write(tmp_path / "trace.json")
    both = measured(read(path), "tra")
    assert any("several names (train, train_eval)" in note for note in output.notes(both))
    assert len(measured(read(path), "train").steps) == 2
    assert not any("several names" in note for note in output.notes(measured(read(path), "train")))
