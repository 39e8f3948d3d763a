"""`skill serve --http`: who is let in, what is refused, and many clients at once."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import serving
from cudagraph_skill.cli import main
from cudagraph_skill.errors import SkillError
from cudagraph_skill_server import http_server, tokens
from cudagraph_skill_server.http_server import Address, Guard, address
from mcp import Client

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "correct-horse-battery-staple"
SECRET = "canary-8c1f"

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; CI has it and fails without it")


# What is asked for ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("8765", Address("127.0.0.1", 8765)),
        ("localhost:0", Address("localhost", 0)),
        ("[::1]:8765", Address("::1", 8765)),
        ("0.0.0.0:80", Address("0.0.0.0", 80)),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text: str, where: Address) -> None:
    assert address(text) == where
    assert where.is_loopback() == (where.host != "0.0.0.0")


@pytest.mark.parametrize("text", ["", "x", ":", "::1:8765", "70000", "-1", "127.0.0.1", "localhost:", ":8765", "8765/mcp", "٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SkillError, match="is no address: write PORT, HOST:PORT"):
        address(text)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--http 0.0.0.0:0", "lets other machines in: add `--expose NAME`"),
        ("--http gpu7.example.org:0", "lets other machines in: add `--expose NAME`"),
        ("--http 0.0.0.0:0 --expose gpu7", "with a token only: add `--token-file FILE`"),
        ("--http 0 --allow .", "code is run for clients that show a token only: add `--token-file FILE`"),
        ("--http 0 --expose http://x", "is no name of a host"),
        ("--http 0 --read nowhere", "nowhere: there is no such folder"),
        ("--http 0 --token-file .", "--token-file . is no file"),
        ("--http nowhere.invalid:0 --expose x --token-file t", "this machine knows no host nowhere.invalid"),
        ("--token-file t", "--token-file is for `--http`"),
        ("--expose x", "--expose is for `--http`"),
    ],
)
def test_more_than_was_asked_for_is_not_opened(
    words: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["serve", *words.split()]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_port_that_is_taken_is_one_sentence_and_exit_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["serve", "--http", str(taken.getsockname()[1])]) == 3
    error = capsys.readouterr().err
    assert "another program has this port" in error
    assert error.count("\n") == 1


# The token ------------------------------------------------------------------------------------------------------------


def test_a_token_is_made_once_for_its_owner_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "token"
    made, source = tokens.chosen(file)
    assert (source, stat.S_IMODE(file.stat().st_mode)) == (str(file), 0o600)
    assert (len(made) >= 32, made in capfd.readouterr().err) == (True, True)
    assert tokens.chosen(file) == (made, str(file))
    assert capfd.readouterr().err == ""


def test_a_token_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    file, link, pipe = tmp_path / "token", tmp_path / "link", tmp_path / "pipe"
    file.write_text(TOKEN)
    link.symlink_to(file)
    os.mkfifo(pipe, 0o600)
    for mode, says in ((0o644, "is open to others"), (0o620, "is open to others")):
        file.chmod(mode)
        with pytest.raises(SkillError, match=says):
            tokens.chosen(file)
    file.chmod(0o600)
    assert tokens.chosen(file)[0] == TOKEN
    for path, says in ((link, "it is a link"), (pipe, "is no file"), (tmp_path, "is no file"), (file / "x", "cannot be read")):
        with pytest.raises(SkillError, match=says):
            tokens.chosen(path)
    for text in ("", "short", "with a space in the middle", "ünicode-ünicode-ünicode"):
        file.write_text(text)
        with pytest.raises(SkillError, match="has no token"):
            tokens.chosen(file)


def test_a_token_of_the_environment_leaves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(tokens.VARIABLE, TOKEN)
    assert tokens.chosen(None) == (TOKEN, tokens.VARIABLE)
    assert tokens.VARIABLE not in os.environ
    assert tokens.chosen(None) == ("", "")


# The guard ------------------------------------------------------------------------------------------------------------


def _guarded(
    token: str = "", most: int = 8, hosts: tuple[str, ...] = ("127.0.0.1", "localhost", "[::1]"), **headers: str
) -> int:
    """Return the status of a request with those headers."""
    statuses: list[int] = []

    async def app(_: Any, __: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    async def receive() -> Any:
        return {"type": "http.request"}

    given = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": given}
    asyncio.run(Guard(app, token, hosts, most)(scope, receive, send))
    return statuses[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8765", "localhost:1", "LOCALHOST:8765", "[::1]:8765"])
def test_this_machine_is_called_by_its_own_names(host: str) -> None:
    assert _guarded(Host=host) == 200
    assert _guarded(Host=host, Origin=f"http://{host}") == 200


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1:80@evil", "localhost:x", "[::1", "x y"],
)
def test_a_name_of_another_machine_is_refused(host: str) -> None:
    assert _guarded(Host=host) == 421
    assert _guarded(Host="localhost", Origin=f"http://{host}") == 403


def test_a_request_has_one_host_and_a_page_of_a_file_is_refused() -> None:
    assert _guarded() == 421
    assert _guarded(Host="localhost", Origin="null") == 403
    assert _guarded(Host="localhost", Origin="file://localhost") == 403
    assert _guarded(Host="gpu7.example.org", hosts=("gpu7.example.org",)) == 200


def test_only_the_whole_token_opens() -> None:
    for shown in (
        "",
        TOKEN,
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Basic {TOKEN}",
        "Bearer ",
        f"Bearer{TOKEN}",
        "Bearer \xff",
    ):
        assert _guarded(TOKEN, Host="localhost", Authorization=shown) == 401
    assert _guarded(TOKEN, Host="localhost") == 401
    assert _guarded(TOKEN, Host="localhost", Authorization=f"bearer {TOKEN}") == 200
    assert _guarded(TOKEN, Host="evil.example", Authorization=f"Bearer {TOKEN}") == 421


def test_one_request_too_many_is_told_to_come_again() -> None:
    assert _guarded(Host="localhost", most=0) == 503


# A server -------------------------------------------------------------------------------------------------------------


def _asked(port: int, *calls: tuple[str, dict[str, Any]], token: str = "") -> list[Any]:
    async def ask() -> list[Any]:
        connection = serving.Connection(port, token)
        try:
            await connection.greet()
            return [await connection.post(serving.call(1, tool, **arguments)) for tool, arguments in calls]
        finally:
            connection.close()

    return asyncio.run(ask())


def _said(answer: tuple[int, dict[str, Any]]) -> str:
    return str(answer[1]["result"]["content"][0]["text"])


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
        (folder / "step.py").write_text(f"def step(x):\n    return x.item()  # {SECRET * (folder is outside)}\n")
    (root / "link.py").symlink_to(outside / "step.py")
    return root, outside


@pytest.mark.slow
def test_files_are_read_in_folders_that_were_named_only(folders: tuple[Path, Path]) -> None:
    root, outside = folders
    reads = [("check", {"path": path}) for path in ("step.py:step", str(root / "step.py"), ".")]
    elsewhere = ("link.py", "link.py:step", str(outside / "step.py"), f"{root}/../outside/step.py:step", "/etc/passwd", "-")
    refused = [(tool, {"path": path}) for tool in ("check", "config") for path in elsewhere]
    with serving.serving("--read", str(root), http=True) as server:
        answers = _asked(server.port, *reads, *refused)
        assert all(not answer["result"].get("isError") for _, answer in answers[:3]), answers
        for answer in answers[3:]:
            assert "may not be read: this server reads files in" in _said(answer) or "`-` is standard input" in _said(answer)
        assert SECRET not in json.dumps(answers)
    with serving.serving(http=True) as server:
        first, second = _asked(server.port, ("check", {"path": str(root / "step.py")}), ("check", {"source": "x = 1\n"}))
        assert "this server reads files in no folder (`skill serve --read FOLDER` adds one)" in _said(first)
        assert not second[1]["result"].get("isError")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_client_of_the_sdk_asks_in_both_eras(mode: Any) -> None:
    async def ask(port: int) -> Any:
        async with Client(f"http://127.0.0.1:{port}/mcp", mode=mode) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            return tools, await client.call_tool("search", {"question": "share a pool"})

    with serving.serving(http=True) as server:
        tools, result = asyncio.run(ask(server.port))
    assert result.structured_content["results"]
    assert not tools & {"run_check", "run_bench"}


@pytest.mark.slow
@needs_torch
def test_code_is_run_for_the_token_alone(tmp_path: Path) -> None:
    ran, file = tmp_path / "ran", tmp_path / "token"
    (tmp_path / "step.py").write_text(f"open({str(ran)!r}, 'w').write('x')\nraise ValueError('as expected')\n")
    words = ("--python", sys.executable, "--allow", str(tmp_path), "--token-file", str(file))
    run = ("run_check", {"path": "step.py", "function": "step"})
    with serving.serving(*words, http=True, CUDAGRAPH_SKILL_NO_GPU_NEEDED="1", CUDA_VISIBLE_DEVICES="") as server:
        for token in ("", "x" * 43):
            assert [status for status, _ in _asked(server.port, run, ("search", {"question": "x"}), token=token)] == [401, 401]
        assert not ran.exists()
        ((status, answer),) = _asked(server.port, run, token=file.read_text().strip())
        assert (status, answer["result"]["structuredContent"]["verdict"]) == (200, "error_in_eager")
        assert ran.exists()
        assert server.said().count(file.read_text().strip()) == 1


@pytest.mark.slow
def test_a_body_that_is_too_large_is_refused() -> None:
    with serving.serving(http=True) as server:
        (status, _), after = _asked(
            server.port, ("errors", {"log": "x" * (http_server.BODY + 1)}), ("search", {"question": "share a pool"})
        )
    assert (status, after[0]) == (413, 200)


@pytest.mark.slow
def test_many_clients_at_once_are_all_answered() -> None:
    done = serving.clients(16, 6, 0.0)
    assert (done["questions"], done["wrong"], done["tracebacks"]) == (96, 0, 0)


@pytest.mark.slow
def test_odd_requests_break_nothing_and_read_and_run_nothing() -> None:
    done = serving.fuzz_http(960, 7)
    found = {name: done[name] for name in ("crashed", "tracebacks", "bugs", "leaks", "opened_outside", "code_ran")}
    assert found == {"crashed": False, "tracebacks": 0, "bugs": 0, "leaks": 0, "opened_outside": 0, "code_ran": False}
    assert done["statuses"]["200"] > 200  # most of them were understood


@pytest.mark.slow
def test_a_signal_ends_it_with_calls_under_way() -> None:
    with serving.serving(http=True) as server:
        below = serving.below(server.process.pid)
        server.end()
        assert serving.gone(below) == []
