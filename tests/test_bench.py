"""`skill bench`: what it prints and draws of a result from a GPU, what it refuses, and its rounds with an invented guest."""

from __future__ import annotations

import ast
import json
import os
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from cudagraph_skill import cli
from cudagraph_skill.bench import orders, output, plot, record, rounds
from cudagraph_skill.bench.orders import Spread
from cudagraph_skill.bench.record import Bench, Profiled, Result, Row, Timed
from cudagraph_skill.bench.ways import COMPILED, EAGER, MANUAL, MODULES, PARTIAL, UNTRAINED, WORKLOAD, of_workload, table
from cudagraph_skill.capture.session import Guests, Listener
from cudagraph_skill.errors import SkillError

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "benchmarks" / "evidence" / "bench.json"
GUEST = ROOT / "tools" / "cudagraph_skill" / "bench" / "guest"
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the guest imports torch; CI has it, see conftest.py")


@pytest.fixture(scope="module")
def seen() -> Bench:
    """Return what a GPU gave."""
    return record.read(EVIDENCE)


def row(way: str, wall: float, host: float, busy: float = 1000.0, **more: Any) -> Row:
    """Return a way whose steps took these microseconds, and whose profile has this Self CPU time in milliseconds."""
    times = [wall * part * 1e-6 for part in (0.995, 1.0, 1.005)]
    timed = Timed(times, [100e-6], 300 << 20, 200 << 20, 0.5, 1.0)
    return Row(way, [timed], [Profiled(host * part * 1e-3, busy * 1e-6, 38, 7) for part in (0.995, 1.0, 1.005)], **more)


def bench(*rows: Row, workload: str = "decode", beside: str = "") -> Bench:
    """Return a result of one workload."""
    return Bench({"gpu": "a GPU"}, "2026-01-01", "skill bench", 1, 1.0, beside, [Result(workload, rows)])


# A kept result --------------------------------------------------------------------------------------------------------


def test_the_evidence_is_a_complete_run_of_the_blogs_workload_with_its_machine(seen: Bench) -> None:
    assert output.is_complete(seen)
    assert [result.workload for result in seen.results] == ["mlp"]
    assert [each.way for each in seen.results[0].rows] == [way.name for way in of_workload("mlp")]
    assert all(len(each.timed) == len(each.profiled) == seen.rounds >= 3 for each in seen.results[0].rows)
    assert all(seen.machine[name] for name in ("gpu", "driver", "torch", "cuda", "python", "cpu", "cores"))
    assert seen.command.startswith("skill bench --workload mlp")
    assert "bin/" not in EVIDENCE.read_text()  # no place of the machine that it ran on


def test_on_a_gpu_self_cpu_time_has_the_published_order_and_wall_time_has_not(seen: Bench) -> None:
    result = seen.results[0]
    assert orders.as_published(result) is True
    rows = {each.way: each for each in result.rows}
    assert orders.is_before(orders.self_cpu(rows[MANUAL]), orders.self_cpu(rows[MODULES]))
    assert not orders.is_before(orders.wall(rows[MANUAL]), orders.wall(rows[MODULES]))


def test_show_prints_the_table_of_a_kept_result(seen: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--show", str(EVIDENCE)]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].startswith("bench: mlp: full step, by hand over compile is the fastest by wall time: ")
    for way in of_workload("mlp"):
        [line] = [line for line in lines if line.startswith(f"  {way.label}  ")]
        assert all(f"{seconds * 1e3:.2f}" in line for seconds in way.published)
    assert any(line.startswith("by Self CPU time: full step, by hand < ") and line.endswith(", as published") for line in lines)
    assert sum(line.startswith("by wall time: ") for line in lines) == 1
    assert lines[-1].startswith("next: ")
    assert seen.machine["gpu"] in lines[-2]
    assert "Traceback" not in out


def test_json_of_a_kept_result_is_that_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--show", str(EVIDENCE), "--json"]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed)
    assert found["verdict"] == "measured"
    assert found["says"][0]["findings"][0].endswith(", as published")
    assert set(json.loads(EVIDENCE.read_text())) <= set(found)
    again = tmp_path / "again.json"
    again.write_text(printed)
    assert record.read(again) == record.read(EVIDENCE)


def test_the_gallery_has_the_table_of_the_evidence(seen: Bench) -> None:
    rows = [line for line in output.markdown(seen).splitlines() if line.startswith("|")]
    assert len(rows) == 2 + len(of_workload("mlp"))
    assert "\n".join(rows) in (ROOT / "docs" / "gallery.md").read_text()


def test_markdown_and_the_figure_are_written_and_not_replaced_without_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table_file, figure = tmp_path / "t.md", tmp_path / "f.svg"
    report = tmp_path / "bench.html"
    files = ["--markdown", str(table_file), "--plot", str(figure), "--html", str(report)]
    assert cli.main(["bench", "--show", str(EVIDENCE), *files]) == 0
    assert "| no graph |" in table_file.read_text()
    assert "full step, by hand over compile" in report.read_text()
    drawn = figure.read_text()
    assert cli.main(["bench", "--show", str(EVIDENCE), *files]) == 2
    assert "add `--force` to replace it" in capsys.readouterr().err
    figure.write_text("")
    assert cli.main(["bench", "--show", str(EVIDENCE), *files, "--force"]) == 0
    assert figure.read_text() == drawn


def test_the_figure_has_a_bar_for_each_way_and_measure_and_a_ring_for_each_published_number(seen: Bench) -> None:
    root = ET.fromstring(plot.svg(seen))
    name = "{http://www.w3.org/2000/svg}"
    bars = [each for each in root.iter(f"{name}rect") if each.get("fill") in (plot.WALL, plot.SELF_CPU)]
    assert len(bars) == 2 * len(of_workload("mlp"))
    assert len(list(root.iter(f"{name}circle"))) == 4
    right = float(root.get("width", "0"))
    assert all(float(each.get("x", "0")) + float(each.get("width", "0")) < right for each in bars)
    walls = [float(each.get("width", "0")) for each in bars if each.get("fill") == plot.WALL]
    medians = [orders.wall(each).median for each in seen.results[0].rows]
    assert sorted(range(6), key=walls.__getitem__) == sorted(range(6), key=medians.__getitem__)


def test_an_axis_ends_above_its_longest_bar() -> None:
    for most in (0.03, 1.0, 9.9, 99.0, 1803.0):
        end = plot.Panel("", "", [plot.Bar("", Spread(most / 2, most / 3, most))]).most
        assert most < end <= 2 * most


def test_a_png_needs_matplotlib(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "f.png"
    code = cli.main(["bench", "--show", str(EVIDENCE), "--plot", str(file)])
    if find_spec("matplotlib") is not None:
        assert (code, file.read_bytes()[:4]) == (0, b"\x89PNG")
        return
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n"), file.exists()) == (3, "", 1, False)
    assert "pip install matplotlib`, or name a file that ends in .svg" in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no result"),
        ("[]", "is no result"),
        ('{"bench": 2}', "is no result"),
        ('{"bench": 1}', "'machine' is missing"),
        (("workload", "mlpp"), "there is no workload 'mlpp'"),
        (("way", "by luck"), "there is no way 'by luck'"),
        (("wall", []), "a list of times is empty"),
        (("submit", ["1"]), "'1' is no time"),
        (("busy", True), "True is no time"),
        (("self_cpu", -1), "-1 is no time"),
        (("timed", 3), "not iterable"),
    ],
)
def test_a_file_that_is_no_result_is_one_sentence(
    text: str | tuple[str, Any], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.json"
    file.write_text(text if isinstance(text, str) else json.dumps(_with(json.loads(EVIDENCE.read_text()), *text)))
    assert cli.main(["bench", "--show", str(file)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def _with(given: Any, name: str, value: Any) -> Any:
    """Return JSON data in which every value of a name is another."""
    if isinstance(given, dict):
        return {key: value if key == name else _with(part, name, value) for key, part in given.items()}
    return [_with(part, name, value) for part in given] if isinstance(given, list) else given


# What is said ---------------------------------------------------------------------------------------------------------


def test_percentiles_are_those_of_the_values() -> None:
    assert orders.spread([3.0]) == Spread(3.0, 3.0, 3.0)
    assert orders.spread([float(number) for number in range(11)]) == Spread(5.0, 1.0, 9.0)


def test_an_order_has_equals_where_spreads_overlap_or_medians_are_near() -> None:
    rows = [row(EAGER, 2000, 20), row(MANUAL, 1000, 5), row(MODULES, 1005, 10)]
    assert orders.order(rows, orders.self_cpu) == "full step, by hand < model, make_graphed_callables < no graph"
    assert orders.order(rows, orders.wall) == "full step, by hand = model, make_graphed_callables < no graph"


def test_the_difference_names_the_pair_that_only_self_cpu_time_separates_and_why() -> None:
    hidden = bench(row(EAGER, 2000, 20), row(MANUAL, 1000, 5), row(MODULES, 1005, 10), row(PARTIAL, 1800, 18)).results[0]
    assert orders.difference(hidden).startswith(
        "by Self CPU time full step, by hand takes 2.00 times less than model, make_graphed_callables, by wall time the two "
        "are within the noise of each other ("
    )
    assert "the host is done before the GPU, which is busy for 1 ms and 1 ms of a step" in orders.difference(hidden)
    slower = bench(row(EAGER, 1000, 20, busy=100), row(PARTIAL, 1500, 10, busy=100)).results[0]
    assert "wall time says the opposite" in orders.difference(slower)
    assert "as long as the slower of host and GPU" in orders.difference(slower)


def test_equal_orders_are_said_to_be_equal_with_their_factors() -> None:
    same = bench(row(EAGER, 2000, 20), row(MANUAL, 1000, 5)).results[0]
    said = orders.difference(same)
    assert said.startswith("Self CPU time and wall time order the ways alike, by other factors: full step, by hand takes 4.00 ")
    assert "2.00 times less wall time" in said
    assert orders.difference(bench(row(EAGER, 2000, 20)).results[0]).startswith("not all rows")


def test_the_published_order_is_asked_for_only_where_all_its_rows_are_there() -> None:
    rows = [row(EAGER, 4, 24), row(MANUAL, 1, 8), row(MODULES, 2, 11), row(UNTRAINED, 3, 20)]
    assert orders.as_published(Result("mlp", rows)) is True
    assert orders.as_published(Result("mlp", [*rows[:3], row(UNTRAINED, 3, 10)])) is False
    assert orders.as_published(Result("mlp", rows[:3])) is None
    assert orders.as_published(Result("decode", [*rows[:3], row(PARTIAL, 3, 20)])) is None


def test_only_the_blogs_workloads_have_published_columns() -> None:
    assert "published" in output.headings(Result("mlp", []))[1]
    assert "published" not in "".join(output.headings(Result("decode", [])))
    assert [UNTRAINED in table(name) for name in WORKLOAD] == [each.published for each in WORKLOAD.values()]


def test_a_way_that_failed_has_its_reason_and_makes_the_result_incomplete() -> None:
    made = bench(row(EAGER, 2000, 20), Row(COMPILED, why="raised BackendCompilerFailed: no compiler"))
    assert (output.is_complete(made), output.data(made, "x")["verdict"]) == (False, "incomplete")
    assert "  full step, by hand over compile: raised BackendCompilerFailed: no compiler" in output.text(made, "x").splitlines()
    assert "Full step, by hand over compile: raised" in output.markdown(made)
    assert output.said(Result("mlp", [])) == "no way of it could be measured"
    assert ET.fromstring(plot.svg(bench())).get("width")


def test_numbers_beside_another_program_are_marked() -> None:
    busy = "another program uses this GPU"
    whole = output.text(bench(row(EAGER, 2000, 20), beside=busy), "x")
    assert "2000 us (1992-2008)*" in whole
    assert f"note: * {busy}" in whole.splitlines()
    one = row(EAGER, 2000, 20)
    one = replace(one, timed=[replace(one.timed[0], beside=busy)])
    shown = output.text(bench(one, row(MANUAL, 1000, 5)), "x")
    assert "2000 us (1992-2008)*" in shown
    assert "1000 us (996-1004), 2.00x " in shown
    assert "*" not in output.text(bench(row(EAGER, 2000, 20)), "x")


def test_steps_that_do_not_agree_are_said() -> None:
    def notes(*values: dict[str, Any]) -> list[str]:
        rows = [row(way, 1000, 5) for way in (EAGER, MANUAL, MODULES, COMPILED)]
        rows = [replace(each, timed=[replace(each.timed[0], **more)]) for each, more in zip(rows, values, strict=True)]
        return output.notes(bench(*rows), Result("decode", rows))

    start = "after 10 steps from one start the loss"
    said = notes({}, {"loss": 1.5}, {}, {"loss": 1.0001})
    assert f"{start} equals that without a graph, to the last digit: model, make_graphed_callables" in said
    assert f"{start} is off by 5.0e-01 of it: full step, by hand" in said
    assert f"{start} is off by 1.0e-04 of it: full step, by hand over compile, which is rounding" in said
    said = notes(*({"moved": far} for far in (2.0, 1.0, 2.0, 2.0)))
    assert "after 10 steps from one start the change of the model is off by 5.0e-01 of it: full step, by hand" in said


def test_a_profile_that_lost_kernels_is_said() -> None:
    few = row(MANUAL, 1000, 5)
    few = replace(few, profiled=[replace(few.profiled[0], operations=5)])
    [lost] = output._lost(Result("decode", [row(EAGER, 2000, 20), few]))
    assert lost.startswith("the profiler saw 5 operations in a step of full step, by hand and 38 without a graph")


# The command ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workload", "mpl"], "there is no workload mpl; did you mean mlp?"),
        (["--workload", "zzz"], "there is no workload zzz; there are mlp, "),
        (["--show", str(EVIDENCE), "--rounds", "2"], "--show measures nothing: leave out --rounds"),
        (["--show", str(EVIDENCE), "--traces", "x"], "leave out --traces"),
        (["--show", str(EVIDENCE), "--workload", "decode"], "has no workload decode; it has mlp"),
        (["--show", "nowhere.json"], "nowhere.json: No such file or directory; name a file"),
        (["--rounds", "0"], "it must be 1 or more"),
        (["--deadline", "-1"], "it must be above 0"),
        (["--markdown", "x.txt"], "has to end in .md"),
        (["--markdown", "none/x.md"], "there is no folder none: make it first"),
        (["--plot", "x.jpg"], "has to end in .svg or .png"),
        (["--plot", "none/x.svg"], "there is no folder none"),
        (["--traces", "none/traces"], "there is no folder none"),
        (["--traces", "old"], "mlp-manual.json.gz: it is there already"),
        (["--traces", "file"], "it is there already"),
        (["train.py"], "one argument too many"),
    ],
)
def test_misuse_is_one_sentence_before_anything_runs(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "mlp-manual.json.gz").touch()
    (tmp_path / "file").touch()
    assert cli.main(["bench", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "old"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tmp_path.chmod(0o500)
    assert cli.main(["bench", "--traces", str(tmp_path)]) == 2
    assert "write-protected" in capsys.readouterr().err


def test_list_names_each_workload(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(WORKLOAD)
    assert cli.main(["bench", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["workloads"]
    assert [each["name"] for each in listed if each["published"]] == ["mlp", "mlp-tf32"]


@needs_torch
def test_without_a_gpu_one_sentence_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert cli.main(["bench", "--python", sys.executable, "--json", "--traces", str(tmp_path / "traces")]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "lacking"
    assert "built without CUDA" in found["error"] or "sees no GPU" in found["error"]
    assert list(tmp_path.iterdir()) == []


def test_an_interpreter_that_is_not_there_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--python", "./nowhere/python"]) == 3
    assert "name the Python that has torch" in capsys.readouterr().err


# The rounds, with a guest that measures nothing -----------------------------------------------------------------------

INVENTED = '''"""A guest without a GPU."""
import os, pathlib, time

def prepare(request):
    pass

def run(request, prepared, report):
    task, way = request["task"], request["way"]
    with open("asked.txt", "a") as lines:
        print(task, way, os.getpid(), file=lines)
    if task == "look":
        report.result({"machine": {"gpu": "none"}, "beside": ""})
    elif way == "partial" and task == "profile":
        report.result({"error": "raised RuntimeError: no"})
    elif way == "make_graphed_callables":
        os._exit(3)
    elif way == "manual over compile" and task == "time":
        report.result({"wall": "soon"})
    elif task == "time":
        memory = {"reserved": 1, "allocated": 1}
        report.result({"wall": [1e-3], "submit": [1e-4], **memory, "set_up": 0.1, "loss": 1.0, "beside": ""})
    elif task == "profile":
        if request["trace"]:
            pathlib.Path(request["trace"]).write_text("{}")
        report.result({"self_cpu": 1e-2, "busy": 1e-3, "operations": 3, "steps": 7, "beside": ""})
    else:
        report.result({"beside": ""})
'''


@pytest.fixture
def invented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the rounds of this test ask a guest that invents its answers; return the current folder."""
    (tmp_path / "packages").mkdir()
    (tmp_path / "packages" / "invented_guest.py").write_text(INVENTED)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    monkeypatch.setenv("CUDAGRAPH_SKILL_NO_GPU_NEEDED", "1")
    monkeypatch.setattr(rounds, "_RUNNER", "invented_guest")
    return tmp_path / "here"


@needs_torch
def test_each_way_has_a_process_for_its_times_and_another_one_for_its_profile_and_ways_take_turns(
    invented: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["bench", "--python", sys.executable, "--workload", "decode", "--rounds", "2", "--traces", "traces", "--json"]
    assert cli.main(arguments) == 1
    asked = [line.rsplit(" ", 1) for line in (invented / "asked.txt").read_text().splitlines()]
    assert len({pid for _, pid in asked}) == len(asked)
    first = ["time eager", "profile eager", "time manual", "profile manual", "time make_graphed_callables", "time partial"]
    second = ["time manual", "profile manual", "time eager", "profile eager"]
    assert [what for what, _ in asked] == [
        "look ", "compile manual over compile", *first, "profile partial", "time manual over compile", *second,
    ]  # fmt: skip
    found = json.loads(capsys.readouterr().out)
    why = {each["way"]: each["why"] for each in found["results"][0]["rows"]}
    assert [found["verdict"], why[EAGER], why[MANUAL]] == ["incomplete", "", ""]
    assert why[PARTIAL] == "raised RuntimeError: no"
    assert why[MODULES].startswith("its process ended (exit: 3")
    assert why[COMPILED].startswith("its report cannot be read")
    assert sorted(path.name for path in (invented / "traces").iterdir()) == ["decode-eager.json.gz", "decode-manual.json.gz"]
    assert sorted(path.name for path in invented.iterdir()) == ["asked.txt", "traces"]


@needs_torch
def test_a_process_that_hangs_is_ended_at_its_deadline(invented: Path) -> None:
    slow = INVENTED.replace("    with open", '    time.sleep(60 * (task == "compile"))\n    with open')
    (invented.parent / "packages" / "invented_guest.py").write_text(slow)
    with Guests() as guests:
        plan = rounds.Plan(["decode"], 1, sys.executable, 6)
        made = rounds.measured(plan, guests, Listener(lambda _: None))
    assert made is not None
    [compiled] = [each for each in made.results[0].rows if each.way == COMPILED]
    assert compiled.why == "did not end within 6 s: give it more with `--deadline`"


@needs_torch
def test_a_cancel_ends_the_measurement_and_its_process(invented: Path) -> None:
    slow = INVENTED.replace("    with open", '    time.sleep(60 * (task == "compile"))\n    with open')
    (invented.parent / "packages" / "invented_guest.py").write_text(slow)
    said: list[str] = []
    with Guests() as guests:
        plan = rounds.Plan(["decode"], 1, sys.executable, 60)
        listener = Listener(said.append, lambda: any("compiling" in sentence for sentence in said))
        assert rounds.measured(plan, guests, listener) is None
    assert not any("round 1" in sentence for sentence in said)


@needs_torch
def test_the_real_guest_says_that_the_gpu_cannot_be_used(invented: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    assert invented.is_dir()
    monkeypatch.setattr(rounds, "_RUNNER", "cudagraph_skill.bench.guest.measure")
    with Guests() as guests, pytest.raises(SkillError, match="the GPU cannot be used: ") as error:
        rounds.measured(rounds.Plan(["mlp"], 1, sys.executable, 60), guests, Listener(lambda _: None))
    assert error.value.exit_code == 3


# The guest ------------------------------------------------------------------------------------------------------------


def test_the_guest_keeps_to_old_syntax() -> None:
    for path in GUEST.glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 10))


@needs_torch
def test_guest_and_host_have_the_same_workloads_and_ways() -> None:
    from cudagraph_skill.bench.guest import ways, workloads
    from cudagraph_skill.bench.ways import WAYS

    assert list(workloads.WORKLOADS) == list(WORKLOAD)
    assert set(ways.WAYS) == {way.name for way in WAYS}


@pytest.mark.slow
@needs_torch
@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_step_trains_begins_again_from_its_start_and_is_profiled_as_the_table_says(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch
    from cudagraph_skill.bench.guest import measure, ways, workloads

    def small(device: str) -> workloads.Work:
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1)).to(device)
        batches = [((torch.randn(4, 8),), torch.randn(4, 1)) for _ in range(workloads.BATCHES)]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        return workloads.Work(model, model[0], batches, torch.nn.functional.mse_loss, optimizer)

    monkeypatch.setitem(workloads.WORKLOADS, "mlp", small)
    request = {"workload": "mlp", "way": "eager"}
    losses = []
    for _ in range(2):
        work, step, start = measure.made(request, ways.unmarked, "cpu")
        assert start.moved() == 0.0
        before = [each.detach().clone() for each in work.model.parameters()]
        losses.append([float(measure.run_steps(work, step, 10)), float(step(*work.batches[0]))])
        assert not all(torch.equal(each, old) for each, old in zip(work.model.parameters(), before, strict=True))
        assert start.moved() > 0.0
        start.restore()
        assert all(torch.equal(each, old) for each, old in zip(work.model.parameters(), before, strict=True))
        losses.append([float(measure.run_steps(work, step, 10)), float(step(*work.batches[0]))])
    assert losses[1:] == losses[:1] * 3
    profiler = measure.profile_of(work, step)
    footer = profiler.key_averages().table(row_limit=1).rpartition("Self CPU time total: ")[2].split()[0]
    total = float(footer.rstrip("ums")) * {"us": 1e-6, "ms": 1e-3}[footer.lstrip("0123456789.")]
    assert measure.self_cpu(profiler) == pytest.approx(total, rel=1e-3)
