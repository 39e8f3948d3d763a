"""The MCP tools `recommend` and `scaffold` through the SDK's own client."""

from __future__ import annotations

import ast
import asyncio
import json
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cudagraph_skill.scaffold import receipt
from cudagraph_skill.scaffold.options import Options
from cudagraph_skill_server import app
from cudagraph_skill_server.wording import in_arguments
from mcp import Client

STEP = {"workflow": "manual", "training": True, "versions": ["torch==2.11"]}

_built = cache(app.build)  # a server serves many clients; building one takes 25 ms


def _ask(call: Any, *allowed: Path) -> Any:
    async def talk() -> Any:
        async with Client(_built(sys.executable, allowed)) as client:
            return await call(client)

    return asyncio.run(talk())


def _scaffold(*allowed: Path, **arguments: Any) -> Any:
    return _ask(lambda client: client.call_tool("scaffold", arguments), *allowed)


def _arguments(call: str) -> dict[str, Any]:
    """Return the arguments of the call that ends an answer."""
    parsed = ast.parse(call.replace("=true", "=True"), mode="eval").body
    assert isinstance(parsed, ast.Call)
    return {str(argument.arg): ast.literal_eval(argument.value) for argument in parsed.keywords}


def _verified(file: Path, **given: Any) -> receipt.Receipt:
    given["on_progress"](f"{file}: parity")
    return receipt.Receipt(str(file), "ok", "as it should", {}, {"gpu": "H200"}, given["command"], "0" * 16, "", "", "")


def test_recommend_answers_in_text_and_as_data() -> None:
    result = _ask(lambda client: client.call_tool("recommend", {"training": True, "host_reads": True}))
    data = result.structured_content
    assert (data["workflow"], data["number"]) == ("reduce-overhead", 2)
    assert data["next"] == 'scaffold(workflow="reduce-overhead", training=true)'
    assert result.content[0].text.startswith("workflow 2, reduce-overhead: ")
    assert result.content[0].text.endswith(f"next: {data['next']}")
    data = _ask(lambda client: client.call_tool("recommend", {})).structured_content
    assert data["workflow"] == "profile"
    assert data["questions"]


def test_what_recommend_names_scaffold_takes() -> None:
    data = _ask(lambda client: client.call_tool("recommend", {"training": True, "amp": "bf16"})).structured_content
    assert not _scaffold(**_arguments(data["next"])).is_error


def test_scaffold_gives_the_program_in_text_and_as_data() -> None:
    result = _scaffold(**STEP)
    data = result.structured_content
    assert not result.is_error, result.content[0].text
    assert result.content[0].text.startswith("workflow 7, manual, written for torch 2.11")
    assert "Written for torch 2.11." in (ast.get_docstring(ast.parse(data["program"])) or "")
    assert (data["workflow"], data["options"], data["versions"]) == ("manual", {"training": True}, {"torch": "2.11"})
    assert data["next"] == "save it as step.py, then run: python step.py"
    assert "verified" not in data


def test_a_module_and_its_checks_are_given_or_written(tmp_path: Path) -> None:
    data = _scaffold(**STEP, module=True).structured_content
    assert "from step import Training" in data["checks"]
    assert data["next"] == "save them as step.py and check_step.py, then run: python check_step.py"
    (tmp_path / "check_step.py").write_text("x = 1\n")
    data = _scaffold(tmp_path, **STEP, module=True).structured_content
    written = _scaffold(tmp_path, **_arguments(data["next"])).structured_content
    assert Path(written["path"]).name == "step2.py"
    assert "program" not in written
    assert "checks" not in written
    assert "from step2 import Training" in (tmp_path / "check_step2.py").read_text()
    refused = _scaffold(workflow="profile", module=True)
    assert refused.is_error
    assert refused.content[0].text.endswith('nearest: `scaffold(workflow="manual-over-compile", module=true)`')


def test_checks_beside_a_module_lie_in_the_allowed_folder_too(tmp_path: Path) -> None:
    allowed, other = tmp_path / "project", tmp_path / "other"
    for folder in (allowed, other):
        folder.mkdir()
    (other / "mine.py").write_text("x = 1\n")
    (allowed / "check_step.py").symlink_to(other / "mine.py")
    (allowed / "step.py").write_text("y = 1\n")
    for arguments in ({**STEP, "module": True, "replace": True}, {"verify": True}):
        result = _scaffold(allowed, **arguments, path="step.py")
        assert result.is_error
        assert "may not be written or run" in result.content[0].text
    assert (other / "mine.py").read_text() == "x = 1\n"


def test_every_option_of_the_programs_is_an_argument() -> None:
    tools = {tool.name: tool for tool in _ask(lambda client: client.list_tools()).tools}
    arguments = tools["scaffold"].input_schema["properties"]
    assert set(Options._fields) <= set(arguments)
    assert set(arguments) == {*Options._fields, "versions", "module", "path", "replace", "verify", "deadline"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "name a workflow: profile"),
        ({"workflow": "manul"}, 'there is no workflow manul; nearest: `workflow="manual"`'),
        ({"workflow": "megatron"}, 'nearest: `workflow="mcore-per-layer"` or `workflow="mcore-full-iteration"`'),
        ({"workflow": "--workflow manual"}, "there is no workflow --workflow manual; there are profile, "),
        ({"workflow": "manual", "ddp": True}, '`workflow="manual", ddp=true`: there are no gradients'),
        ({"workflow": "manual", "rng": True}, "`training=true` and `decode=true` do"),
        ({"workflow": True}, "workflow=true should be a valid string or a valid integer, or left out"),
        ({**STEP, "versions": ["torch==9.9"]}, 'nearest: `versions=["torch=='),
        ({**STEP, "versions": "numpy==2"}, '`versions=["numpy==2"]`: '),
        ({**STEP, "versions": [1]}, "versions=[1] should be a valid string, or left out"),
        ({**STEP, "amp": "fp32"}, "amp=\"fp32\" should be 'bf16' or 'fp16', or left out"),
        ({**STEP, "accumulate": 1}, "accumulate=1`: a step of one microbatch is a plain step; nearest: `"),
        ({**STEP, "accumulate": -1, "amp": 1}, "amp=1 should be 'bf16' or 'fp16', or left out; accumulate=-1 should be "),
        ({**STEP, "trainig": True}, "it has no argument trainig; did you mean training? it has workflow, training, "),
        ({**STEP, "path": "step.py"}, "this server does that in no folder"),
        ({**STEP, "path": "--force"}, "scaffold: --force may not be written"),
        ({**STEP, "path": "a\0.py"}, 'path="a\\u0000.py": no name of a file holds a NUL; name another file'),
        ({**STEP, "path": f"{'x' * 300}/step.py"}, "File name too long; name another file"),
        ({**STEP, "replace": True}, "replace=true is for a file: name it with path"),
        ({**STEP, "verify": True}, "next to the program"),
        ({"path": "step.py", "verify": True}, "this server does that in no folder"),
        ({"path": "step.py", "verify": True, "training": True}, "training without a workflow: name one, or leave that out"),
    ],
)
def test_misuse_is_one_sentence_in_words_of_the_tool(arguments: dict[str, Any], says: str) -> None:
    result = _scaffold(**arguments)
    assert result.is_error
    (content,) = result.content
    assert says in content.text
    assert "\n" not in content.text
    assert "skill scaffold" not in content.text
    assert "http" not in content.text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"framework": "megatrn"}, '`framework="megatrn"`: did you mean megatron? there are '),
        ({"busy": 101}, "`busy=101`: a share of the step"),
        ({"shapes": "any"}, "shapes=\"any\" should be 'static', 'dynamic' or 'buckets', or left out"),
        (
            {"decode": True, "training": True},
            "`training=true, decode=true`: generating token by token is inference; nearest: `recommend(decode=true)`",
        ),
        ({"ddp": True, "training": False}, "nearest: `recommend(training=false)`"),
        ({"host_read": True}, "it has no argument host_read; did you mean host_reads?"),
    ],
)
def test_answers_that_cannot_be_are_one_sentence_in_words_of_the_tool(arguments: dict[str, Any], says: str) -> None:
    result = _ask(lambda client: client.call_tool("recommend", arguments))
    assert result.is_error
    assert says in result.content[0].text
    assert "\n" not in result.content[0].text
    assert "--" not in result.content[0].text


@pytest.mark.parametrize(
    ("of_the_command", "of_the_tools"),
    [
        ("skill scaffold: `--into step.py`: it is there: add `--force`", '`path="step.py"`: it is there: add `replace=true`'),
        ("for example `--into 'my dir/step.py'`", 'for example `path="my dir/step.py"`'),
        ("without `--ddp`: reason", "without `ddp=true`: reason"),
        ("`--amp bf16`: its layers", '`amp="bf16"`: its layers'),
        ("nearest: `skill recommend --busy 5 --inference`", "nearest: `recommend(busy=5, training=false)`"),
        ("`--host-reads`, `--moe`: that", "`host_reads=true`, `moe=true`: that"),
        (
            "taken for training (`--inference`), static shapes (`--shapes`)",
            "taken for training (`training=false`), static shapes (`shapes`)",
        ),
        ("written for torch 2.11 (as `--for` says)", "written for torch 2.11 (as `versions` says)"),
        (
            "give its shapes (`--shape 8x16 --shape =2`), or `--inputs FUNCTION`",
            'give its shapes (`shapes=["8x16", "=2"]`), or `inputs=FUNCTION`',
        ),
        ("(`skill scaffold` describes each)", "(`scaffold` describes each)"),
        (
            "name the Python that has torch, such as `--python a/python`",
            "name the Python that has torch, such as `skill serve --python a/python`",
        ),
        ("name the Python that has torch with `--python`", "name the Python that has torch with `skill serve --python PATH`"),
        (
            "in no folder (`skill serve --allow FOLDER` adds one)",
            "in no folder (`skill serve --allow FOLDER` adds one)",
        ),
        ("`torchrun --nproc-per-node 2 step.py`", "`torchrun --nproc-per-node 2 step.py`"),
        (
            "a workflow --force, `--forceful` and `it's --force` stay",
            "a workflow --force, `--forceful` and `it's --force` stay",
        ),
        (
            "`python step.py --training` and `skill scaffold --verify a.py` stay",
            "`python step.py --training` and `skill scaffold --verify a.py` stay",
        ),
        ("(`skill recommend` chooses one)", "(`recommend` chooses one)"),
    ],
)
def test_sentences_of_the_command_are_told_in_words_of_the_tools(of_the_command: str, of_the_tools: str) -> None:
    assert in_arguments(of_the_command) == of_the_tools


def test_the_nearest_keeps_what_was_asked_beside_the_options(tmp_path: Path) -> None:
    asked = {"workflow": "manual", "ddp": True, "versions": "torch==2.6", "path": "new.py"}
    text = _scaffold(tmp_path, **asked).content[0].text
    call = 'scaffold(workflow="manual", versions=["torch==2.6"], path="new.py")'
    assert text.endswith(f"nearest: `{call}`")
    assert not _scaffold(tmp_path, **_arguments(call)).is_error
    assert (tmp_path / "new.py").is_file()


def test_numbers_and_single_texts_are_taken() -> None:
    for workflow in (7, "7", "manual"):
        data = _scaffold(workflow=workflow, versions=" torch==2.6 ").structured_content
        assert (data["workflow"], data["versions"]) == ("manual", {"torch": "2.6"})
    data = _scaffold(workflow=6, versions="torch==2.6, megatron-core==0.17").structured_content
    assert data["versions"] == {"torch": "2.6", "megatron-core": "0.17"}


@pytest.mark.parametrize("option", [{}, {"ddp": True}, {"workflow": 6}])
def test_without_a_folder_the_next_step_is_what_the_program_says(option: dict[str, Any]) -> None:
    data = _scaffold(**{**STEP, **option}).structured_content
    command = data["next"].removeprefix("save it as step.py, then run: ")
    assert f"    {command}\n" in (ast.get_docstring(ast.parse(data["program"]), clean=False) or "")


def test_with_a_folder_the_next_call_writes_the_same_program(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("x = 1\n")
    data = _scaffold(tmp_path, workflow="manual", training=True, ddp=True, versions=["torch==2.6"]).structured_content
    written = _scaffold(tmp_path, **_arguments(data["next"]))
    assert not written.is_error, written.content[0].text
    path = Path(written.structured_content["path"])
    assert path.read_text().replace(path.name, "step.py") == data["program"]
    assert (tmp_path / "step.py").read_text() == "x = 1\n"


def test_the_folder_itself_is_no_file(tmp_path: Path) -> None:
    text = _scaffold(tmp_path, **STEP, path=str(tmp_path)).content[0].text
    assert f'a file is needed, for example `path="{tmp_path}/step.py"`' in text


def test_what_a_recommendation_says_is_in_words_of_the_tools() -> None:
    for arguments in ({}, {"fp8": True, "fsdp": True, "amp": "fp16", "shapes": "dynamic", "control": True}):
        result = _ask(lambda client, arguments=arguments: client.call_tool("recommend", arguments))
        data = result.structured_content
        for sentence in (
            result.content[0].text,
            *data.get("notes", []),
            *(question["option"] for question in data.get("questions", [])),
        ):
            assert " --" not in f" {sentence}"
    assert "shapes" in {
        question["option"]
        for question in _ask(lambda client: client.call_tool("recommend", {})).structured_content["questions"]
    }


def test_a_crash_is_told_and_in_the_thread_of_a_verification_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise MemoryError("too\nmuch")

    monkeypatch.setattr(receipt, "verify", broken)
    text = _scaffold(tmp_path, **STEP, path="step.py", verify=True).content[0].text
    assert "scaffold: the server broke off (MemoryError: too), which is a bug in the server" in text
    assert "\n" not in text


def test_it_writes_where_a_folder_is_allowed_and_replaces_when_asked(tmp_path: Path) -> None:
    tools = {tool.name: tool for tool in _ask(lambda client: client.list_tools(), tmp_path).tools}
    assert not tools["scaffold"].annotations.read_only_hint
    result = _scaffold(tmp_path, **STEP, path="step.py")
    data = result.structured_content
    assert not result.is_error, result.content[0].text
    assert data["path"] == str(tmp_path / "step.py")
    assert "program" not in data
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
    messages: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        messages.append(message or "")

    async def ask(client: Any) -> Any:
        return await client.call_tool("scaffold", {**STEP, "path": "step.py", "verify": True}, progress_callback=told)

    result = _ask(ask, tmp_path)
    assert not result.is_error, result.content[0].text
    verified = result.structured_content["verified"]
    assert (verified["verdict"], verified["command"]) == ("ok", "skill scaffold --workflow manual --training --for torch==2.11")
    assert Path(verified["receipt"]) == tmp_path / "step.receipt.json"
    assert result.structured_content["next"] == verified["next"]
    assert result.content[0].text.startswith("verified: ")
    assert messages == [f"{tmp_path}/step.py: parity"]
    result = _scaffold(tmp_path, path="step.py", verify=True)
    assert "command" not in result.structured_content["verified"]
    assert "workflow" not in result.structured_content


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
    messages: list[str] = []

    async def told(_: float, __: float | None, message: str | None) -> None:
        messages.append(message or "")

    async def ask(client: Any) -> Any:
        for name in ("hang.py", "step.py"):
            await client.call_tool("scaffold", {**STEP, "path": name})
        hanging = asyncio.create_task(client.call_tool("scaffold", {"path": "hang.py", "verify": True}))
        while not began:
            await asyncio.sleep(0.01)
        arguments = {"path": "step.py", "verify": True}
        second = asyncio.create_task(client.call_tool("scaffold", arguments, progress_callback=told))
        while not messages:
            await asyncio.sleep(0.01)
        hanging.cancel()
        return await second

    assert not _ask(ask, tmp_path).is_error
    assert messages[0] == "another capture is running on the GPU: waiting for it"
    assert [path.name for path in began] == ["hang.py", "step.py"]
