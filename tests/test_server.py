"""The MCP server through the SDK's own client, in memory and as a subprocess."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill.bench import record, rounds
from cudagraph_skill.capture import session
from cudagraph_skill.cli import main
from cudagraph_skill.paths import skill_root
from cudagraph_skill.tune import trials
from cudagraph_skill.verify import probes, programs
from cudagraph_skill_server import app, opening
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.capture.request import Request

ROOT = Path(__file__).resolve().parent.parent
READING = {"search", "read", "errors", "explain", "check", "config", "recommend", "scaffold"}
MEASURES = ("check", "map", "decide", "tune")  # of `run_check`, which runs code of the user
STEP = "def step(x):\n    return x * 2\n"

_built = cache(app.build)  # a server serves many clients; building one takes 25 ms


def _ask(call: Any, server: Any = None, **options: Any) -> Any:
    async def talk() -> Any:
        async with Client(server or _built(), **options) as client:
            return await call(client)

    return asyncio.run(talk())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_search_answers_in_text_and_as_data_in_both_protocol_eras(mode: str) -> None:
    result = _ask(lambda client: client.call_tool("search", {"question": "share a pool between graphs", "limit": 2}), mode=mode)
    assert not result.is_error
    assert result.content[0].text == "2 passages"
    passages = result.structured_content["results"]
    assert len(passages) == 2
    assert set(passages[0]) == {"ref", "heading", "text"}


@pytest.mark.slow
def test_the_first_question_reports_that_the_index_is_built(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "_indexes", [])
    notes: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        notes.append(message or "")

    async def ask(client: Any) -> Any:
        return await client.call_tool("search", {"question": "share a pool between graphs"}, progress_callback=told)

    assert not _ask(ask).is_error
    assert [note.startswith("building the search index of ") for note in notes] == [True]
    assert len(list(cache.iterdir())) == 1


def test_instructions_name_every_tool() -> None:
    assert all(f"`{name}`" in app.INSTRUCTIONS for name in READING)


def test_tools_are_read_only_and_typed() -> None:
    tools = {tool.name: tool for tool in _ask(lambda client: client.list_tools()).tools}
    assert set(tools) == READING
    for tool in tools.values():
        assert "\n" not in tool.description
        assert tool.annotations.read_only_hint
        assert not tool.annotations.destructive_hint
        assert not tool.annotations.open_world_hint
        assert tool.output_schema["properties"]
        assert all("type" in argument for argument in tool.input_schema["properties"].values())


def test_read_takes_what_search_returns() -> None:
    result = _ask(lambda client: client.call_tool("search", {"question": "capture_error_mode", "limit": 1}))
    first = result.structured_content["results"][0]
    result = _ask(lambda client: client.call_tool("read", {"ref": first["ref"]}))
    part = result.structured_content["sections"][0]
    assert part["heading"] == first["heading"]
    assert len(part["text"]) >= len(first["text"])


def test_errors_names_causes_in_text_and_as_data() -> None:
    log = "torch.AcceleratorError: CUDA error: capturing stream has unjoined work"
    result = _ask(lambda client: client.call_tool("errors", {"log": log}))
    first = result.structured_content["diagnoses"][0]
    assert (first["id"], first["cause"], first["confidence"]) == ("capture-unjoined-work", "unjoined-side-stream", "high")
    assert "wait_stream" in first["fix"]
    assert result.content[0].text.startswith("1. unjoined-side-stream (high confidence)")
    result = _ask(lambda client: client.call_tool("explain", {"name": first["id"]}))
    assert result.structured_content["sections"][0]["heading"].endswith("capture-unjoined-work")


@pytest.mark.parametrize("name", ["CG201", "device-value-read", "cg201-device-value-read"])
def test_explain_knows_hazards(name: str) -> None:
    (part,) = _ask(lambda client: client.call_tool("explain", {"name": name})).structured_content["sections"]
    assert part["path"] == "references/hazards.md"
    assert part["heading"].endswith("CG201 device-value-read")


def test_a_diagnosis_leads_to_the_static_check_of_the_users_frame() -> None:
    log = 'File "net.py", line 3, in step\n    x.item()\nCUDA error: operation not permitted when stream is capturing'
    result = _ask(lambda client: client.call_tool("errors", {"log": f"Traceback (most recent call last):\n  {log}"}))
    assert result.structured_content["diagnoses"][0]["next"] == 'check(path="net.py:step")'


def test_a_log_of_another_field_is_an_empty_answer_and_no_error() -> None:
    result = _ask(lambda client: client.call_tool("errors", {"log": "ModuleNotFoundError: No module named 'numpy'"}))
    assert not result.is_error
    assert result.structured_content["diagnoses"] == []
    assert "No CUDA-graph error recognised" in result.content[0].text


def test_a_question_outside_the_field_is_an_empty_answer_and_no_error() -> None:
    result = _ask(lambda client: client.call_tool("search", {"question": "how long to boil eggs"}))
    assert not result.is_error
    assert result.structured_content["results"] == []
    assert "nothing found" in result.content[0].text


def test_a_question_in_another_language_is_answered_for_its_english_words() -> None:
    result = _ask(lambda client: client.call_tool("search", {"question": "为什么 make_graphed_callables 很慢"}))
    assert result.structured_content["results"]
    assert result.content[0].text.startswith('the references are in English: searched for "make_graphed_callables"\n')


def test_check_reads_a_file_and_pasted_source_alike(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(STEP)
    for arguments in ({"path": str(path), "function": "step"}, {"path": f"{path}:step"}, {"source": STEP, "function": "step"}):
        result = _ask(lambda client, arguments=arguments: client.call_tool("check", arguments))
        data = result.structured_content
        assert not result.is_error, result.content[0].text
        assert [region["name"] for region in data["regions"]] == ["step"]
        assert data["verdict"] == "clean"
        assert data["next"].startswith("read(ref=")
        assert data["summary"] in result.content[0].text


def test_check_reads_functions_that_nothing_captures_and_says_what_findings_rest_on() -> None:
    source = "import torch\ndef step(x: torch.Tensor):\n    return x.sum().item()\n"
    arguments = {"source": source, "every": True, "explain": True}
    result = _ask(lambda client: client.call_tool("check", arguments))
    (finding,) = result.structured_content["findings"]
    assert (finding["line"], finding["id"]) == (3, "CG201")
    assert finding["because"] == ["`x` is a GPU tensor"]
    assert _ask(lambda client: client.call_tool("check", {"source": source})).structured_content["findings"] == []


def test_check_of_what_is_no_python_says_where_and_does_not_fail() -> None:
    result = _ask(lambda client: client.call_tool("check", {"source": "def step(:"}))
    assert result.structured_content["verdict"] == "unread"
    assert "<source>:1:" in result.content[0].text


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("check", {}, "path or source"),
        ("check", {"path": "a.py", "source": "x"}, "not both"),
        ("check", {"path": "nowhere.py"}, "no such file"),
        ("check", {"source": STEP, "python": "/usr/bin/env"}, "this is no Python interpreter"),
        ("check", {"source": STEP, "function": "stop"}, "did you mean `step`"),
        ("search", {"question": " "}, "empty"),
        ("search", {"question": "x" * 10**6}, "characters"),
        ("search", {}, "question is missing: give it"),
        ("search", {"question": "a", "limit": 0}, "limit=0 should be greater than or equal to 1, or left out"),
        ("search", {"question": "a", "pages": 2}, "it has no argument pages; did you mean page? it has question, limit, "),
        ("search", {"question": "a", "q": "b"}, "it has no argument q; it has question, limit, "),
        ("read", {"ref": "SKILL.md", "offset": 999}, "headings: offset=999 is past them"),
        ("nothing", {"a": 1}, "Unknown tool: nothing"),
        ("errors", {"log": " \n"}, "the log is empty"),
        ("errors", {"log": "\x01\x02\x03" * 99}, "binary data"),
        ("explain", {"name": "capture-unjoined"}, "nearest: capture-unjoined-work"),
        ("explain", {"name": "CG2011"}, "CG201, "),
        ("read", {"ref": "nowhere.md"}, "no file or heading"),
        ("read", {"ref": "../../etc/passwd"}, "no file or heading"),
    ],
)
def test_misuse_is_a_tool_error_that_says_what_to_change(tool: str, arguments: dict[str, Any], says: str) -> None:
    result = _ask(lambda client: client.call_tool(tool, arguments))
    assert result.is_error
    assert says in result.content[0].text
    assert "\n" not in result.content[0].text
    assert "Traceback" not in result.content[0].text


def test_a_crash_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RecursionError("maximum depth\nexceeded")

    monkeypatch.setattr("cudagraph_skill.scaffold.recommend.recommend", broken)
    result = _ask(lambda client: client.call_tool("recommend", {}))
    assert result.is_error
    assert (
        "recommend: the server broke off (RecursionError: maximum depth), which is a bug in the server"
        in result.content[0].text
    )
    assert "\n" not in result.content[0].text


def test_what_is_read_of_the_skill_is_a_resource() -> None:
    listed = _ask(lambda client: client.list_resources()).resources
    files = {"SKILL.md", *(f"references/{path.name}" for path in (skill_root() / "references").glob("*.md"))}
    assert {str(resource.uri).removeprefix("skill://cuda-graphs/") for resource in listed} == files
    result = _ask(lambda client: client.read_resource("skill://cuda-graphs/SKILL.md"))
    assert result.contents[0].text == (skill_root() / "SKILL.md").read_text()


def test_an_unknown_resource_is_a_protocol_error() -> None:
    with pytest.RaisesGroup(MCPError, flatten_subgroups=True):
        _ask(lambda client: client.read_resource("skill://cuda-graphs/references/none.md"))


@pytest.mark.slow
def test_first_calls_that_come_together_build_one_index(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'server'}", "CUDAGRAPH_SKILL_CACHE": str(tmp_path)}
    server = StdioServerParameters(command=sys.executable, args=["-m", "cudagraph_skill", "serve"], env=environment)

    async def together(client: Any) -> list[Any]:
        return await asyncio.gather(*(client.call_tool("search", {"question": "replay"}) for _ in range(8)))

    assert all(result.structured_content["results"] for result in _ask(together, server))
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.slow
@pytest.mark.parametrize("command", [["-m", "cudagraph_skill", "serve"], [str(ROOT / "server" / "serve.py")]])
def test_a_real_process_answers_over_stdio(command: list[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'server'}"}
    server = StdioServerParameters(command=sys.executable, args=command, env=environment)
    result = _ask(lambda client: client.call_tool("search", {"question": "replay"}), server)
    assert result.structured_content["results"]


# Tools that run code --------------------------------------------------------------------------------------------------

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; CI has it and fails without it")
HANG = "import os, time\nopen({note!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)\n"


def _running(allowed: Path, **environment: str) -> StdioServerParameters:
    """Return the command of a real server that may run code of one folder."""
    paths = {"PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'server'}:{os.environ.get('PYTHONPATH', '')}", "CUDA_VISIBLE_DEVICES": ""}
    command = ["-m", "cudagraph_skill", "serve", "--python", sys.executable, "--allow", str(allowed)]
    return StdioServerParameters(command=sys.executable, args=command, env={**os.environ, **paths, **environment})


def test_code_is_run_only_where_a_folder_is_allowed(tmp_path: Path) -> None:
    server = app.build(allowed=[tmp_path])
    tools = {tool.name: tool for tool in _ask(lambda client: client.list_tools(), server).tools}
    assert set(tools) == {*READING, "run_check", "run_bench"}
    assert "decode" in json.dumps(tools["run_bench"].input_schema)
    assert set(tools["run_check"].input_schema["properties"]["measure"]["enum"]) == set(MEASURES)
    for name in ("run_check", "run_bench"):
        tool = tools[name]
        assert (tool.annotations.read_only_hint, tool.annotations.destructive_hint) == (False, True)
        assert tool.output_schema
        assert f"`{name}`" in (server.instructions or "")


@pytest.mark.parametrize("measure", MEASURES)
def test_what_lies_elsewhere_is_refused_through_links_too(measure: str, tmp_path: Path) -> None:
    allowed, other = tmp_path / "project", tmp_path / "project-old"
    for folder in (allowed, other):
        folder.mkdir()
        (folder / "train.py").write_text(STEP)
    (allowed / "link.py").symlink_to(other / "train.py")
    server = app.build(allowed=[allowed])
    for path in (other / "train.py", allowed / "link.py", allowed / ".." / "project-old" / "train.py", "os.path"):
        alone = {"path": f"{path}:step", "measure": measure}
        for target in (alone, {**alone, "program": ["--steps", "3"]}):
            result = _ask(lambda client, target=target: client.call_tool("run_check", target), server)
            assert result.is_error
            assert "may not be run: this server runs code in" in result.content[0].text
    result = _ask(lambda client: client.call_tool("run_check", {"path": "nowhere.py", "measure": measure}), server)
    assert "there is no such file" in result.content[0].text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"program": []}, "which call of the program is to be captured? name it with function"),
        ({"nproc": 2}, "which call of the program is to be captured? name it with function"),
        ({"nproc": 0, "function": "step"}, "nproc=0 should be greater than or equal to 1, or left out"),
        ({"nproc": 2, "function": "step", "shapes": ["4"]}, "shapes makes arguments, and a program passes its own"),
        ({"measure": "map", "program": ["-x"], "function": "step", "inputs": "batch"}, "inputs makes arguments"),
        ({"measure": "map", "nproc": 2}, 'nproc=2 is for measure="check": leave it out'),
        ({"measure": "decide", "step": "train"}, 'step="train" is of a trace, and path="train.py" is none: leave it out'),
        ({"measure": "time"}, "measure=\"time\" should be 'check', 'map', 'decide' or 'tune', or left out"),
    ],
)
def test_arguments_of_a_run_that_do_not_go_together_are_refused(arguments: dict[str, Any], says: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEP)
    server = app.build("/nowhere/python", [tmp_path])
    result = _ask(lambda client: client.call_tool("run_check", {"path": "train.py", **arguments}), server)
    assert result.is_error
    assert says in result.content[0].text
    assert "\n" not in result.content[0].text


def _examined(monkeypatch: pytest.MonkeyPatch, **answer: Any) -> list[Request]:
    """Let a run end with an answer of the guest; return the requests."""
    requests: list[Request] = []

    def examine(given: list[Request], *_: object) -> Iterator[Any]:
        requests.extend(given)
        yield session.joined_result(given[0], answer, [], {"how": "done"})

    monkeypatch.setattr(session, "examine", examine)
    return requests


def test_a_program_is_run_as_one_and_under_torchrun_where_ranks_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(STEP)
    requests = _examined(monkeypatch, verdict="safe", said="captures", notes=["add `--nproc N`"])
    server = app.build("/env/python", [tmp_path])
    for arguments in (
        {"path": "train.py:step", "program": ["--lr", "1"], "skip": 9},
        {"path": "train.py", "function": "step", "nproc": 2},
    ):
        result = _ask(lambda client, arguments=arguments: client.call_tool("run_check", arguments), server)
        assert result.structured_content["notes"] == ["add `nproc=N`"]
    alone, ranks = requests
    assert (alone.target, alone.program, alone.launch) == ("step", (f"{tmp_path}/train.py", "--lr", "1"), None)
    assert (alone.skip, ranks.skip) == (9, None)
    assert (ranks.target, ranks.program, ranks.folder) == ("step", (f"{tmp_path}/train.py",), str(tmp_path))
    assert ranks.launch is not None
    assert ranks.launch.options == ("--standalone", "--nproc-per-node=2")


def test_a_map_is_told_in_text_and_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(STEP)
    rows = [_region(0, -1, "step", verdict="capture_error"), _region(1, 0, "model", verdict="safe")]
    rows.append(_region(2, 0, "head", said="not tried: the deadline is near; `--deadline` gives it longer"))
    given = {"wall": 10e-3, "cpu": 9e-3, "busy": 1e-3, "launches": 100, "node": 0.35e-6, "replay": 10e-6, "regions": rows}
    requests = _examined(monkeypatch, verdict="capture_error", said="fails at capture", map=given)
    server = app.build("/env/python", [tmp_path])
    arguments = {"path": "train.py:step", "measure": "map", "shapes": ["4"], "deadline": 300}
    result = _ask(lambda client: client.call_tool("run_check", arguments), server)
    assert not result.is_error, result.content[0].text
    assert [(request.measure, request.shapes, request.deadline) for request in requests] == [("mapping", ("4",), 300)]
    data = result.structured_content
    assert (data["verdict"], data["map"]["graphs"], data["map"]["fix_first"], data["map"]["not_tried"]) == (
        "capture_error", [1], [0], [2]
    )  # fmt: skip
    assert [region["graph"] for region in data["map"]["regions"]] == ["fails", "captures", "not tried"]
    assert data["map"]["regions"][2]["said"] == "not tried: the deadline is near; `deadline` gives it longer"
    assert result.content[0].text == f"{data['map']['said']}\n{data['summary']}\nnext: {data['next']}"
    assert data["map"]["said"].startswith("map of step: 10 ms a call")


def test_a_decision_is_told_in_text_and_as_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(STEP)
    times = {"median": 1e-3, "least": 9e-4, "most": 2e-3}
    given = {"eager": times, "submit": 1e-3, "graph": None, "capture": None, "busy": None}
    requests = _examined(monkeypatch, verdict="capture_error", said="fails; `--skip 3` passes calls", costs=given)
    server = app.build("/env/python", [tmp_path])
    result = _ask(
        lambda client: client.call_tool("run_check", {"path": "train.py:step", "measure": "decide", "shapes": ["4"]}), server
    )
    assert not result.is_error, result.content[0].text
    assert [(request.measure, request.shapes) for request in requests] == [("costs", ("4",))]
    data = result.structured_content
    assert (data["verdict"], data["decision"]["now"]) == ("capture_error", {**times, "submit": 1e-3})
    assert result.content[0].text == f"{data['decision']['said']}\n{data['summary']}\nnext: {data['next']}"


def test_the_ways_of_a_call_are_told_in_text_and_as_data_with_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(STEP)
    asked = []

    def tuned(request: Request, _guests: object, listener: session.Listener) -> trials.Tuning:
        asked.append(request)
        listener.say("round 1 of 3: timing manual")
        answer: dict[str, Any] = {"verdict": "safe", "said": "slow; `--deadline` gives it longer", "causes": []}
        seconds = {"eager": 1e-3, "manual": 1e-4}
        times = {way: trials.Times(each, each, each, 0.1, 1 << 20) for way, each in seconds.items()}
        agreement = trials.Agreement("equal", 0.0, "", 0)
        ways = [trials.Trial(way, agreement, [each]) for way, each in times.items()]
        return trials.Tuning(session.joined_result(request, answer, [], {}), ways)

    monkeypatch.setattr(trials, "tuned", tuned)
    server = app.build("/env/python", [tmp_path])
    result = _ask(
        lambda client: client.call_tool("run_check", {"path": "train.py:step", "measure": "tune", "shapes": ["4"]}), server
    )
    assert not result.is_error, result.content[0].text
    assert [(request.shapes, request.folder) for request in asked] == [(("4",), str(tmp_path))]
    data = result.structured_content
    assert (data["tuning"]["way"], data["summary"]) == ("manual", "safe: step: slow; `deadline` gives it longer")
    assert result.content[0].text.startswith("manual: 10 times as fast as eager")
    assert "class Graphed" in data["tuning"]["code"]
    assert {way["name"]: (way["median"], way["rounds"]) for way in data["tuning"]["ways"]} == {
        "eager": (1e-3, 1), "manual": (1e-4, 1)
    }  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_the_code_for_a_program_is_a_change_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.py").write_text(STEP)
    asked = []

    def tuned(request: Request, *_: object) -> trials.Tuning:
        asked.append(request)
        answer: dict[str, Any] = {"verdict": "safe", "said": "captures", "causes": []}
        rounds = {way: [trials.Times(each, each, each, 0.1, 1 << 20)] for way, each in (("eager", 1e-3), ("manual", 1e-4))}
        agreement = trials.Agreement("equal", 0.0, "", 0)
        ways = [trials.Trial(way, agreement, times) for way, times in rounds.items()]
        return trials.Tuning(session.joined_result(request, answer, [], {}), ways)

    monkeypatch.setattr(trials, "tuned", tuned)
    arguments = {"path": "train.py", "measure": "tune", "function": "step", "program": ["--steps", "3"], "skip": 7}
    result = _ask(lambda client: client.call_tool("run_check", arguments), app.build("/env/python", [tmp_path]))
    assert not result.is_error, result.content[0].text
    assert [(request.target, request.program[1:], request.skip) for request in asked] == [("step", ("--steps", "3"), 7)]
    assert "+@Graphed\n def step(" in result.structured_content["tuning"]["code"]
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_workload_that_is_not_known_is_refused_with_the_nearest(tmp_path: Path) -> None:
    result = _ask(
        lambda client: client.call_tool("run_bench", {"workload": "convolution"}), app.build("/env/python", [tmp_path])
    )
    assert result.is_error
    assert "there is no workload convolution; did you mean convolutions?" in result.content[0].text


def test_claims_that_are_run_again_are_told_with_what_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = programs.Machine(sys.executable, {"torch": "2.13.0"}, 1, "one GPU")
    monkeypatch.setattr(probes, "machine", lambda _: here)
    monkeypatch.setattr(probes, "PRELUDE", "raise SystemExit('no GPU')\n")
    server = app.build(sys.executable, [tmp_path])
    result = _ask(lambda client: client.call_tool("run_bench", {"claims": ["workflow-code", "serving"]}), server)
    assert not result.is_error, result.content[0].text
    assert result.structured_content["verdict"] == "differs"
    code, serving = result.structured_content["results"]
    assert code["ran"] == code["programs"] == 5
    assert len(code["wrong"]) == 4
    assert serving == {"id": "serving", "state": "not run"}
    assert result.content[0].text == "0 hold, 1 differ, 1 not run, on one GPU"


def test_a_claim_that_is_not_known_is_refused_with_the_nearest(tmp_path: Path) -> None:
    result = _ask(lambda client: client.call_tool("run_bench", {"claims": ["hazard"]}), app.build(sys.executable, [tmp_path]))
    assert result.is_error
    assert "did you mean hazards?" in result.content[0].text


def test_a_comparison_is_told_in_sentences_and_medians(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = record.read(ROOT / "benchmarks" / "evidence" / "bench.json")
    monkeypatch.setattr(rounds, "measured", lambda *_: kept)
    result = _ask(lambda client: client.call_tool("run_bench", {"workload": "mlp"}), app.build("/env/python", [tmp_path]))
    assert not result.is_error, result.content[0].text
    data = result.structured_content
    assert result.content[0].text == "\n".join(f"{each['workload']}: {each['said']}" for each in data["says"])
    for row, given in zip(data["results"][0]["rows"], kept.results[0].rows, strict=True):
        assert [times["wall"] for times in row["timed"]] == pytest.approx(
            [median(times.wall) for times in given.timed], rel=1e-3
        )
    assert len(json.dumps(data)) < 0.6 * len(json.dumps(record.data(kept)))


def test_a_trace_is_read_in_an_allowed_folder_only(tmp_path: Path) -> None:
    allowed = tmp_path / "project"
    allowed.mkdir()
    work = [("kernel", "kernel", 10.0, 2.0), ("cuda_runtime", "cudaLaunchKernel", 0.0, 4.0)]
    events = [
        {"cat": cat, "name": name, "ts": 20.0 * n + begin, "dur": took, "args": {"correlation": n, "device": 0}}
        for n in range(20)
        for cat, name, begin, took in work
    ]
    events += [{"cat": "user_annotation", "name": "train", "ts": 0.0, "dur": 400.0, "args": {}}]
    events = [{"ph": "X", "pid": 1, "tid": 1, **event} for event in events]
    for folder in (allowed, tmp_path):
        (folder / "trace.json").write_text(json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": events}))
    server = app.build(allowed=[allowed])
    decide = {"path": "trace.json", "measure": "decide"}
    result = _ask(lambda client: client.call_tool("run_check", {**decide, "step": "train"}), server)
    assert not result.is_error, result.content[0].text
    data = result.structured_content
    assert (data["verdict"], data["decision"]["steps"]["name"]) == ("graph", "train")
    assert data["decision"]["steps"]["counted"] == 1
    assert result.content[0].text == f"{data['summary']}\nnext: {data['next']}"
    other = _ask(lambda client: client.call_tool("run_check", {**decide, "path": str(tmp_path / "trace.json")}), server)
    assert other.is_error
    assert "may not be read: this server reads in" in other.content[0].text
    for arguments, says in (
        ({"path": "gone.json"}, "there is no such file in"),
        ({"step": "nope"}, "no range of the trace begins with `nope`"),
        ({"function": "step"}, "leave out function"),
        ({"measure": "map"}, 'give measure="decide"'),
    ):
        refused = _ask(lambda client, arguments={**decide, **arguments}: client.call_tool("run_check", arguments), server)
        assert refused.is_error
        assert says in refused.content[0].text
        assert "bug in the server" not in refused.content[0].text


def _region(number: int, inside: int, name: str, **known: Any) -> dict[str, Any]:
    measured = {"calls": 1.0, "launches": 50.0, "gpu": 1e-3, "cpu": 4e-3}
    row = {"kind": "module", "class": "", "verdict": "", "said": "", "like": -1, "causes": [], **measured}
    return {"number": number, "inside": inside, "name": name, **row, **known}


def test_a_folder_that_is_not_there_cannot_be_allowed(tmp_path: Path) -> None:
    server = _running(tmp_path / "gone")
    done = subprocess.run(
        [server.command, *server.args], env=server.env, input=b"", capture_output=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert b"there is no such folder" in done.stderr


@pytest.mark.slow
@needs_torch
def test_a_machine_without_a_gpu_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEP)
    messages: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        messages.append(message or "")

    async def ask(client: Any) -> Any:
        return await client.call_tool("run_check", {"path": "train.py:step", "shapes": ["4"]}, progress_callback=told)

    result = _ask(ask, _running(tmp_path))
    assert result.is_error
    assert re.search("GPU|CUDA", result.content[0].text)
    assert messages[0].startswith("importing torch in ")


def test_an_interpreter_that_is_none_is_told_in_words_of_the_server(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEP)
    server = app.build("/nowhere/python", [tmp_path])
    result = _ask(lambda client: client.call_tool("run_check", {"path": "train.py:step"}), server)
    assert result.is_error
    assert "name the Python that has torch with `skill serve --python PATH`" in result.content[0].text


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("measure", MEASURES)
def test_a_failure_is_an_answer_in_text_and_as_data(measure: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\nraise ValueError('no')\n")
    server = _running(tmp_path, CUDAGRAPH_SKILL_NO_GPU_NEEDED="1")
    arguments = {"path": "train.py", "function": "step", "measure": measure}
    result = _ask(lambda client: client.call_tool("run_check", arguments), server)
    assert not result.is_error, result.content[0].text
    assert result.structured_content["verdict"] == "error_in_eager"
    assert "ValueError: no" in result.structured_content["summary"]
    assert result.structured_content["summary"] in result.content[0].text
    assert result.structured_content.get("map") is None


@pytest.mark.slow
@needs_torch
def test_a_program_under_torchrun_names_the_rank_that_fails(tmp_path: Path) -> None:
    odd = "import os, time\nif os.environ['RANK'] == '1':\n    raise ValueError('no')\ntime.sleep(99)\n"
    (tmp_path / "train.py").write_text(odd + STEP)
    server = _running(tmp_path, CUDAGRAPH_SKILL_NO_GPU_NEEDED="1")
    arguments = {"path": "train.py", "function": "step", "nproc": 2}
    result = _ask(lambda client: client.call_tool("run_check", arguments), server)
    assert not result.is_error, result.content[0].text
    assert result.structured_content["verdict"] == "error_in_eager"
    assert "on rank 1 of 2: " in result.structured_content["summary"]
    assert [row["rank"] for row in result.structured_content["ranks"]] == [0, 1]


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("measure", MEASURES)
def test_cancelling_kills_the_code_and_the_next_call_has_its_turn(measure: str, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    (tmp_path / "hang.py").write_text(HANG.format(note=str(note)))
    (tmp_path / "bad.py").write_text("raise ValueError('no')\n")
    messages: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        messages.append(message or "")

    async def ask(client: Any) -> Any:
        arguments = {"path": "hang.py", "function": "step", "measure": measure}
        hanging = asyncio.create_task(client.call_tool("run_check", arguments))
        while not (note.exists() and note.read_text()):
            await asyncio.sleep(0.05)
        second = asyncio.create_task(client.call_tool("run_check", {"path": "bad.py:step"}, progress_callback=told))
        while not messages:
            await asyncio.sleep(0.05)
        hanging.cancel()
        return await second

    result = _ask(ask, _running(tmp_path, CUDAGRAPH_SKILL_NO_GPU_NEEDED="1"))
    assert result.structured_content["verdict"] == "error_in_eager"
    assert messages[0] == "another capture is running on the GPU: waiting for it"
    assert not Path("/proc", note.read_text()).exists()


@pytest.mark.slow
@needs_torch
def test_a_client_that_goes_leaves_nothing_running(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    (tmp_path / "hang.py").write_text(HANG.format(note=str(note)))

    async def go(client: Any) -> None:
        hanging = asyncio.create_task(client.call_tool("run_check", {"path": "hang.py:step"}))
        while not (note.exists() and note.read_text()):
            await asyncio.sleep(0.05)
        hanging.cancel()

    _ask(go, _running(tmp_path, CUDAGRAPH_SKILL_NO_GPU_NEEDED="1"))
    end = time.monotonic() + 10
    while Path("/proc", note.read_text()).exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path("/proc", note.read_text()).exists()


@pytest.mark.slow
def test_the_server_ends_when_its_client_goes_and_prints_nothing_of_its_own() -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'server'}"}
    command = [sys.executable, "-m", "cudagraph_skill", "serve"]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=30, env=environment, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_interpreter_that_is_not_there_is_said_before_serving(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--python", "no-such-python"]) == 3
    assert capsys.readouterr().err.startswith("no-such-python: there is no such program on the PATH; ")
