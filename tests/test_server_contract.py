"""What the MCP server costs a conversation, and that it leaves out no command: sizes of definitions and answers, paging."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import yaml
from cudagraph_skill.cli.main import parser
from cudagraph_skill_server import app
from cudagraph_skill_server.definitions import ALIASES, OUTPUTS
from mcp import Client, StdioServerParameters

ROOT = Path(__file__).resolve().parent.parent
# Tokens of all tools, of a typical answer, and of three long passages with their places; four characters each.
DEFINITIONS, ANSWER, PASSAGES = 2_500, 800, 900
# Commands for the person who sets this up: they answer no question and do no work for a user of an assistant.
OF_THE_MACHINE = {"serve", "install", "doctor", "completion"}
MEASURED = {"map", "decide", "tune"}  # values of `measure` of run_check
SOURCE = """import torch

model = torch.nn.Linear(64, 64).cuda()
x = torch.randn(8, 64, device="cuda")

def step():
    loss = model(x).sum()
    loss.backward()
    if loss.item() > 1:
        print(loss)
    return loss

g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    out = step()
"""
LOG = "torch.AcceleratorError: CUDA error: capturing stream has unjoined work"
TYPICAL: list[tuple[str, dict[str, Any]]] = [
    ("search", {"question": "how do I give a graph new inputs"}),
    ("search", {"question": "capture_error_mode", "limit": 1}),
    ("search", {"question": "how long do I boil an egg"}),
    ("read", {"ref": "references/hazards.md"}),
    ("read", {"ref": "SKILL.md#error-table"}),
    ("errors", {"log": LOG}),
    ("errors", {"log": "ModuleNotFoundError: No module named 'numpy'"}),
    ("explain", {"name": "CG201"}),
    ("explain", {"name": "capture-unjoined-work"}),
    ("check", {"source": SOURCE}),
    ("check", {"path": str(ROOT / "tests" / "hazards")}),
    ("config", {"text": "--cuda-graph-impl local --cuda-graph-scope full", "versions": ["megatron-core==0.15"]}),
    ("recommend", {"training": True}),
    ("recommend", {}),
    ("scaffold", {"workflow": "manual", "training": True, "path": "step.py"}),
]

_built = cache(app.build)  # a server serves many clients; building one takes 25 ms


def _ask(call: Any, server: Any = None) -> Any:
    async def talk() -> Any:
        async with Client(server or _built()) as client:
            return await call(client)

    return asyncio.run(talk())


def _called(tool: str, arguments: dict[str, Any], server: Any = None) -> Any:
    return _ask(lambda client: client.call_tool(tool, arguments), server)


def _process(*options: str) -> StdioServerParameters:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'server'}"}
    return StdioServerParameters(
        command=sys.executable, args=["-m", "cudagraph_skill", "serve", "--python", sys.executable, *options], env=environment
    )


def _tokens(result: Any) -> float:
    """Return the length of text and data together."""
    data = json.dumps(result.structured_content, separators=(",", ":"), ensure_ascii=False)
    return (len(result.content[0].text) + len(data)) / 4


@pytest.mark.slow
def test_the_definitions_of_all_tools_are_short(tmp_path: Path) -> None:
    listed = _ask(lambda client: client.list_tools(), _process("--allow", str(tmp_path)))
    sent = listed.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert {tool["name"] for tool in sent["tools"]} == set(OUTPUTS)
    assert len(json.dumps(sent, separators=(",", ":"))) / 4 <= DEFINITIONS
    assert all(tool["outputSchema"]["properties"] and tool["description"] for tool in sent["tools"])


def test_every_command_that_works_for_the_user_has_a_tool(tmp_path: Path) -> None:
    (commands,) = (action.choices for action in parser()._actions if action.dest == "command")
    assert commands is not None
    tools = {tool.name: tool for tool in _ask(lambda client: client.list_tools(), app.build(allowed=[tmp_path])).tools}
    measures = set(tools["run_check"].input_schema["properties"]["measure"]["enum"])
    reached = {name.removeprefix("run_") for name in tools} | measures
    assert "claims" in tools["run_bench"].input_schema["properties"]
    assert set(commands) - OF_THE_MACHINE <= reached | {"verify"}
    assert reached <= set(commands)
    assert measures == {*MEASURED, "check"}


@pytest.mark.parametrize(("tool", "arguments"), TYPICAL)
def test_an_answer_is_typed_short_and_said_once(tool: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    result = _called(tool, arguments, app.build(sys.executable, [tmp_path]))  # the client holds it against the output schema
    (content,) = result.content
    assert not result.is_error, content.text
    fields = OUTPUTS[tool]
    always = {name for name in fields if not name.endswith("?")}
    assert always <= set(result.structured_content) <= {name.removesuffix("?") for name in fields}
    assert content.text.count("\n") <= 2
    assert len(content.text.replace(str(ROOT), "")) <= 400
    assert _tokens(result) <= (PASSAGES if tool == "search" else ANSWER)


def test_long_paths_make_an_answer_no_longer(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["folder"] * 10)
    shutil.copytree(ROOT / "tests" / "hazards", deep, ignore=shutil.ignore_patterns("__pycache__"))
    result = _called("check", {"path": str(deep)}, app.build(sys.executable, [tmp_path]))
    assert 3 <= len(result.structured_content["findings"]) < len(list(deep.iterdir()))
    assert _tokens(result) <= ANSWER


def test_most_questions_have_an_answer_of_typical_length() -> None:
    questions = yaml.safe_load((ROOT / "benchmarks" / "questions.yaml").read_text(encoding="utf-8"))[:40]

    async def ask(client: Any) -> list[float]:
        return [_tokens(await client.call_tool("search", {"question": each["question"]})) for each in questions]

    assert median(_ask(ask)) <= ANSWER


def test_findings_come_in_parts_that_make_up_all() -> None:
    folder = str(ROOT / "tests" / "hazards")
    first = _called("check", {"path": folder}).structured_content
    count = len(first["findings"])
    total = count + first["left_out"]["findings"]
    assert f"offset={count})" in first["next"]
    second = _called("check", {"path": folder, "offset": count}).structured_content
    assert second["summary"] == first["summary"]
    assert second["findings"][0] != first["findings"][0]
    assert count + len(second["findings"]) + second["left_out"]["findings"] == total
    last = _called("check", {"path": folder, "offset": total - 1}).structured_content
    assert len(last["findings"]) == 1
    assert "findings" not in last["left_out"]


def test_every_violation_is_told_at_once() -> None:
    path, release = str(ROOT / "tests" / "config" / "constraints.yaml"), "megatron-core==0.15"
    data = _called("config", {"path": path, "versions": [release]}).structured_content
    command = [sys.executable, "-m", "cudagraph_skill", "config", path, "--for", release, "--json"]
    done = subprocess.run(command, env=_process().env, capture_output=True, text=True, check=False)
    violations = json.loads(done.stdout)["violations"]
    assert len(violations) > 20
    assert [row["id"] for row in data["violations"]] == [row["id"] for row in violations]


def test_headings_come_in_parts_that_make_up_all() -> None:
    seen: list[str] = []
    data = _called("read", {"ref": "hazards"}).structured_content
    while "offset=" in data["next"]:
        seen += [row["ref"] for row in data["sections"]]
        data = _called("read", {"ref": "hazards", "offset": len(seen)}).structured_content
    seen += [row["ref"] for row in data["sections"]]
    assert len(seen) == len(set(seen)) > 100
    assert data["next"].startswith("read(ref=")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("search", {"query": "replay", "k": 1}),
        ("search", {"q": "replay", "top_k": 1}),
        ("read", {"path": "SKILL.md"}),
        ("errors", {"text": LOG}),
        ("explain", {"id": "CG201"}),
        ("check", {"code": SOURCE}),
        ("check", {"file": __file__}),
        ("config", {"flags": "--cuda-graph-impl local", "version": ["megatron-core==0.18"]}),
    ],
)
def test_names_that_models_invent_are_understood(tool: str, arguments: dict[str, Any]) -> None:
    result = _called(tool, arguments)
    assert not result.is_error, result.content[0].text


def test_other_names_stand_for_arguments_that_are_there(tmp_path: Path) -> None:
    tools = _ask(lambda client: client.list_tools(), app.build(allowed=[tmp_path])).tools
    arguments = {name for tool in tools for name in tool.input_schema["properties"]}
    assert set(ALIASES) <= arguments


def test_text_alone_has_all_of_the_answer() -> None:
    plain = app.build(as_text=True)
    typed = _called("search", {"question": "replay"})
    text = _called("search", {"question": "replay"}, plain)
    assert text.structured_content is None
    assert json.loads(text.content[0].text) == typed.structured_content
    assert all(tool.output_schema is None for tool in _ask(lambda client: client.list_tools(), plain).tools)


@pytest.mark.slow
def test_a_client_of_an_older_protocol_gets_text() -> None:
    client = {"name": "old", "version": "1"}
    hello = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": client}
    asked = {"name": "explain", "arguments": {"name": "CG201"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": asked},
    ]
    command = _process()
    with subprocess.Popen(
        [command.command, *command.args], env=command.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin
        assert server.stdout
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
        server.stdout.readline()
        result = json.loads(server.stdout.readline())["result"]
        server.stdin.close()
    assert "structuredContent" not in result
    assert json.loads(result["content"][0]["text"])["sections"][0]["heading"].endswith("CG201 device-value-read")
