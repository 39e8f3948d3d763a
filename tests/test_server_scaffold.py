"""The MCP tools `recommend` and `scaffold` through the SDK's own client."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cudagraph_skill import receipt
from cudagraph_skill.scaffold import Options
from cudagraph_skill_server import app
from mcp import Client

STEP = {"workflow": "manual", "training": True, "versions": ["torch==2.11"]}


def _ask(call: Any, *allowed: Path) -> Any:
    async def talk() -> Any:
        async with Client(app.build(sys.executable, allowed)) as client:
            return await call(client)

    return asyncio.run(talk())


def _scaffold(*allowed: Path, **arguments: Any) -> Any:
    return _ask(lambda client: client.call_tool("scaffold", arguments), *allowed)


def _verified(file: Path, **given: Any) -> receipt.Receipt:
    given["on_progress"](f"{file}: parity")
    return receipt.Receipt(str(file), "ok", "as it should", {}, {"gpu": "H200"}, given["command"], "0" * 16, "", "", "")


def test_recommend_answers_in_text_and_as_data() -> None:
    result = _ask(lambda client: client.call_tool("recommend", {"training": True, "host_reads": True}))
    data = result.structured_content
    assert (data["workflow"], data["number"]) == ("reduce-overhead", 2)
    assert data["next"] == 'scaffold(workflow="reduce-overhead", training=true)'
    assert result.content[0].text.startswith("workflow 2, reduce-overhead")
    assert result.content[0].text.endswith(f"next: {data['next']}")
    data = _ask(lambda client: client.call_tool("recommend", {})).structured_content
    assert data["workflow"] == "profile"
    assert data["questions"]


def test_what_recommend_names_scaffold_takes() -> None:
    data = _ask(lambda client: client.call_tool("recommend", {"training": True, "amp": "bf16"})).structured_content
    call = ast.parse(data["next"].replace("true", "True"), mode="eval").body
    assert isinstance(call, ast.Call)
    arguments = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
    assert not _scaffold(**arguments).is_error


def test_scaffold_gives_the_program_in_text_and_as_data() -> None:
    result = _scaffold(**STEP)
    data = result.structured_content
    assert not result.is_error, result.content[0].text
    assert result.content[0].text.startswith(data["program"])
    assert "Written for torch 2.11." in (ast.get_docstring(ast.parse(data["program"])) or "")
    assert (data["workflow"], data["options"], data["versions"]) == ("manual", {"training": True}, {"torch": "2.11"})
    assert data["next"] == "save it as step.py, then run: python step.py"
    assert data["verified"] is None


def test_every_option_of_the_programs_is_an_argument() -> None:
    tools = {tool.name: tool for tool in _ask(lambda client: client.list_tools()).tools}
    arguments = tools["scaffold"].input_schema["properties"]
    assert set(Options._fields) <= set(arguments)
    assert set(arguments) == {*Options._fields, "versions", "path", "replace", "verify", "deadline"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "name a workflow: profile"),
        ({"workflow": "manul"}, "nearest: --workflow manual"),
        ({"workflow": "manual", "ddp": True}, "nearest: skill scaffold --workflow manual"),
        ({**STEP, "versions": ["torch==9.9"]}, "nearest: --for torch=="),
        ({**STEP, "amp": "fp8"}, "amp"),
        ({**STEP, "path": "step.py"}, "this server does that in no folder"),
        ({**STEP, "verify": True}, "beside the program"),
        ({"path": "step.py", "verify": True}, "this server does that in no folder"),
    ],
)
def test_misuse_is_a_tool_error_that_says_what_to_change(arguments: dict[str, Any], says: str) -> None:
    result = _scaffold(**arguments)
    assert result.is_error
    assert says in result.content[0].text
    assert "Traceback" not in result.content[0].text


def test_a_framework_that_there_is_not_is_a_tool_error() -> None:
    result = _ask(lambda client: client.call_tool("recommend", {"framework": "megatrn"}))
    assert result.is_error
    assert "did you mean megatron?" in result.content[0].text


def test_it_writes_where_a_folder_is_allowed_and_replaces_when_asked(tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in _ask(lambda client: client.list_tools(), tmp_path).tools}
    assert not tools["scaffold"].annotations.read_only_hint
    result = _scaffold(tmp_path, **STEP, path="step.py")
    data = result.structured_content
    assert not result.is_error, result.content[0].text
    assert (data["path"], data["program"]) == (str(tmp_path / "step.py"), "")
    assert data["next"] == f"scaffold(path={json.dumps(data['path'])}, verify=true)"
    ast.parse((tmp_path / "step.py").read_text())
    again = _scaffold(tmp_path, **STEP, amp="bf16", path="step.py")
    assert again.is_error
    assert "there already" in again.content[0].text
    assert not _scaffold(tmp_path, **STEP, amp="bf16", path=str(tmp_path / "step.py"), replace=True).is_error
    assert "torch.bfloat16" in (tmp_path / "step.py").read_text()


def test_it_writes_and_runs_nowhere_else_through_links_neither(tmp_path: Path) -> None:
    allowed, other = tmp_path / "project", tmp_path / "project-old"
    for folder in (allowed, other):
        folder.mkdir()
    (allowed / "link.py").symlink_to(other / "step.py")
    (allowed / "folder").symlink_to(other)
    for path in (other / "step.py", allowed / "link.py", allowed / "folder" / "step.py", allowed / ".." / "step.py"):
        for arguments in ({**STEP, "replace": True}, {"verify": True}):
            result = _scaffold(allowed, **arguments, path=str(path))
            assert result.is_error
            assert "may not be written or run" in result.content[0].text
    assert list(other.iterdir()) == []


def test_it_verifies_what_it_wrote_and_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt, "verify", _verified)
    said: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        said.append(message or "")

    async def ask(client: Any) -> Any:
        return await client.call_tool("scaffold", {**STEP, "path": "step.py", "verify": True}, progress_callback=told)

    result = _ask(ask, tmp_path)
    assert not result.is_error, result.content[0].text
    found = result.structured_content["verified"]
    assert (found["verdict"], found["command"]) == ("ok", "skill scaffold --workflow manual --training --for torch==2.11")
    assert Path(found["receipt"]) == tmp_path / "step.receipt.json"
    assert "verified: " in result.content[0].text
    assert said == [f"{tmp_path}/step.py: parity"]
    result = _scaffold(tmp_path, path="step.py", verify=True)
    assert result.structured_content["verified"]["command"] == ""
    assert result.structured_content["workflow"] == ""


def test_a_file_that_is_no_program_is_a_tool_error(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("x = 1\n")
    for path, says in (("mine.py", "it has no main()"), ("gone.py", "No such file")):
        result = _scaffold(tmp_path, path=path, verify=True)
        assert result.is_error
        assert says in result.content[0].text


def test_cancelling_ends_a_verification_and_the_next_has_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[Path] = []

    def verify(file: Path, **given: Any) -> receipt.Receipt:
        began.append(file)
        while file.name == "hang.py" and not given["cancelled"]():
            time.sleep(0.01)
        return _verified(file, **given)

    monkeypatch.setattr(receipt, "verify", verify)
    said: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        said.append(message or "")

    async def ask(client: Any) -> Any:
        for name in ("hang.py", "step.py"):
            await client.call_tool("scaffold", {**STEP, "path": name})
        hanging = asyncio.create_task(client.call_tool("scaffold", {"path": "hang.py", "verify": True}))
        while not began:
            await asyncio.sleep(0.01)
        arguments = {"path": "step.py", "verify": True}
        second = asyncio.create_task(client.call_tool("scaffold", arguments, progress_callback=told))
        while not said:
            await asyncio.sleep(0.01)
        hanging.cancel()
        return await second

    assert not _ask(ask, tmp_path).is_error
    assert said[0] == "another capture is running on the GPU: waiting for it"
    assert [each.name for each in began] == ["hang.py", "step.py"]
