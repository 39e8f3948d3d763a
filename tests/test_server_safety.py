"""The MCP server is safe from what clients send, name and run, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest
import serving
from cudagraph_skill.errors import SkillError
from cudagraph_skill_server import app, environment, files, jobs, limits, stdio
from mcp import Client

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHECK: dict[str, Any] = {"function": None, "source": None, "every": False, "python": "", "explain": False, "offset": 0}
NOTHING = {"crashed": False, "tracebacks": 0, "bugs": 0, "leaks": 0, "opened_outside": 0, "code_ran": False}
CAPTURE = "import torch\n\ng = torch.cuda.CUDAGraph()\nx = torch.ones(8).cuda()\n\n\ndef step(x):\n    return x * 2\n\n\n"
CAPTURE += "with torch.cuda.graph(g):\n    y = step(x)\n"

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; CI has it and fails without it")


def _check(job: jobs.Jobs, **asked: Any) -> dict[str, Any]:
    _, data = asyncio.run(job.run("check", {**CHECK, "path": None, **asked}))
    return data


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that takes long to check."""
    folder = tmp_path_factory.mktemp("long")
    for number in range(4000):
        (folder / f"step{number}.py").write_text(CAPTURE)
    return folder


# Files ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def roots(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for folder in (root, outside):
        folder.mkdir()
        (folder / "step.py").write_text(CAPTURE)
        os.mkfifo(folder / "pipe.py")
    (root / "link.py").symlink_to(outside / "step.py")
    (root / "up").symlink_to(outside)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(os.path.relpath(root / "socket.py"))
        yield root, outside


def test_a_path_is_looked_for_in_the_roots_and_nowhere_else(roots: tuple[Path, Path]) -> None:
    root, outside = map(str, roots)
    assert files.placed("step.py:step", [root]) == f"{root}/step.py:step"
    assert files.placed(f"{root}/step.py", [root]) == f"{root}/step.py"
    assert files.placed("nope.py", [root]) == f"{root}/nope.py"
    assert files.placed("/etc/passwd", None) == "/etc/passwd"
    for path in (
        "link.py",
        "link.py:step",
        "up",
        "up/step.py",
        "../outside/nope.py",
        f"{outside}/step.py",
        f"{root}-x",
        "/etc/passwd",
    ):
        with pytest.raises(SkillError, match="may not be read: this server reads files in"):
            files.placed(path, [root])
    for path in ("-", "a\0b"):
        for allowed in (None, [root]):
            with pytest.raises(SkillError):
                files.placed(path, allowed)


@pytest.mark.parametrize("name", ["pipe.py", "socket.py"])
@pytest.mark.parametrize("is_confined", [True, False])
def test_pipes_and_sockets_are_not_read(name: str, is_confined: bool, roots: tuple[Path, Path]) -> None:
    job = jobs.Jobs([str(roots[0])] if is_confined else None)
    assert not _check(job, path=str(roots[0] / name))["findings"]
    asked = {"text": None, "path": str(roots[0] / name), "kind": "", "versions": None, "arch": "", "environment": None}
    with pytest.raises(SkillError, match=r"it is a pipe, a socket or a device|No such device"):
        asyncio.run(job.run("config", asked))


def test_what_a_file_imports_is_held_to_the_roots_too(roots: tuple[Path, Path]) -> None:
    root, outside = roots
    (outside / "helper.py").write_text("def helped(x):\n    return x.item()\n")
    (root / "helper.py").symlink_to(outside / "helper.py")
    (root / "main.py").write_text(
        CAPTURE.replace("x * 2", "helped(x)").replace("import torch\n", "import torch\nfrom helper import helped\n", 1)
    )
    free, confined = jobs.Jobs(), jobs.Jobs([str(root)])
    assert [each["line"] for each in _check(free, path=str(root / "main.py"))["findings"]] == [2]
    watch = serving.Watch(outside)
    assert _check(confined, path="main.py")["findings"] == []
    assert watch.opened() == 0


def test_files_of_the_kernel_and_large_ones_are_not_read(tmp_path: Path) -> None:
    big = tmp_path / "big.py"
    with big.open("wb") as file:
        file.truncate(files.LARGEST + 1)
    for path in ("/proc/self/environ", "/dev/zero", str(big)):
        data = _check(jobs.Jobs(), path=path)
        assert data["findings"] == []
        assert any("could not be read" in note for note in data["notes"])


def test_another_interpreter_is_not_started(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(f"#!/bin/sh\necho x > {ran}\n")
    (tmp_path / "bin" / "python3").chmod(0o755)
    with pytest.raises(SkillError, match="site-packages to read"):
        _check(jobs.Jobs(), source="x = 1\n", python=str(tmp_path / "bin" / "python3"))
    assert not ran.exists()


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run_check", {"path": "pipe.py", "function": "step"}),
        ("run_check", {"path": "pipe.json", "measure": "decide"}),
        ("scaffold", {"path": "pipe.py", "verify": True}),
        ("scaffold", {"path": "pipe.py", "workflow": "manual", "replace": True}),
    ],
)
def test_a_pipe_in_an_allowed_folder_holds_no_call(tool: str, arguments: dict[str, Any], tmp_path: Path) -> None:
    for name in ("pipe.py", "pipe.json"):
        os.mkfifo(tmp_path / name)

    async def ask() -> Any:
        async with Client(app.build(sys.executable, [tmp_path])) as client:
            return await client.call_tool(tool, arguments)

    result = asyncio.run(ask())
    assert result.is_error
    assert "is a pipe, a socket or a device, not a file" in result.content[0].text
    assert (tmp_path / "pipe.py").is_fifo()


# Jobs -----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_job_that_takes_too_long_is_stopped(long: Path) -> None:
    with pytest.raises(SkillError, match=r"it did not end within 0\.5 s, and was stopped"):
        _check(jobs.Jobs(deadline=0.5), path=str(long))
    assert _idle()
    assert _check(jobs.Jobs(), source=CAPTURE)["verdict"]


def test_a_job_that_needs_too_much_memory_is_refused_or_stopped() -> None:
    source = "x = [" + "f(1, a=2)," * 50_000 + "]\n"
    assert _check(jobs.Jobs(), source=source)["verdict"] == "nothing"
    try:
        verdict = _check(jobs.Jobs(memory=32 << 20), source=source)["verdict"]
    except SkillError as error:
        verdict = str(error)
    assert verdict == "unread" or "MB of memory" in verdict or "its process was killed" in verdict
    assert _check(jobs.Jobs(), source=CAPTURE)["verdict"]


@pytest.mark.slow
def test_a_call_that_is_cancelled_ends_its_work_and_holds_no_other(long: Path) -> None:
    async def ask() -> str:
        job = jobs.Jobs()
        many = [asyncio.create_task(job.run("check", {**CHECK, "path": str(long)})) for _ in range(12)]
        await asyncio.sleep(1)
        for task in many:
            task.cancel()
        await asyncio.gather(*many, return_exceptions=True)
        line, _ = await job.run("check", {**CHECK, "path": None, "source": CAPTURE})
        return line

    assert asyncio.run(ask())
    assert _idle()


def test_the_next_call_works_where_the_process_that_forks_was_killed() -> None:
    assert _check(jobs.Jobs(), source=CAPTURE)["verdict"]
    os.kill(jobs._forking[0]._process.pid, signal.SIGKILL)
    assert _check(jobs.Jobs(), source=CAPTURE)["verdict"]


def _idle() -> bool:
    """Wait until the process that forks has no child; return whether that is so."""
    end = time.monotonic() + 20
    while serving.below(jobs._forking[0]._process.pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not serving.below(jobs._forking[0]._process.pid)


def test_a_thread_that_is_given_up_keeps_its_place_until_it_ends() -> None:
    async def ask() -> tuple[str, str]:
        import threading

        threads, go = limits.Threads(1, 0.2), threading.Event()
        first = await asyncio.gather(threads.run(go.wait), return_exceptions=True)
        second = await asyncio.gather(threads.run(lambda: "no"), return_exceptions=True)
        go.set()
        while (third := (await asyncio.gather(threads.run(lambda: "yes"), return_exceptions=True))[0]) != "yes":
            await asyncio.sleep(0.01)
        return str(first[0]), f"{second[0]} {third}"

    first, rest = asyncio.run(ask())
    assert "this did not end within 0.2 s" in first
    assert "this did not end within 0.2 s" in rest
    assert rest.endswith(" yes")


# Standard input -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_no_message_is_answered_with_a_code() -> None:
    lines: list[tuple[bytes, int, Any]] = [
        (b"{", -32700, None), (b"\xff\xfe", -32700, None), (b"[" * 100_000, -32700, None), (b"[]", -32600, None),
        (b'{"jsonrpc": "2.0", "id": 4, "method": 4}', -32600, 4), (b'{"id": "x", "method": "ping"}', -32600, "x"),
        (b'"' + b"x" * (stdio.LONGEST + 1) + b'"', -32600, None),
    ]  # fmt: skip
    with serving.serving() as server:
        server.greet()
        for line, code, name in lines:
            server.send(line)
            answer = server.answer(name)
            assert answer["error"]["code"] == code, line[:50]
        server.send({"jsonrpc": "2.0", "id": 9, "method": "prompts/get", "params": {"name": "nope"}})
        assert server.answer(9)["error"]["code"] == -32602
        server.send(b"")
        server.send({"jsonrpc": "2.0", "id": 10, "method": "ping"})
        assert server.answer(10)["result"] == {}
        assert "Traceback" not in server.said()
        server.end()
        assert server.process.returncode == 0


@pytest.mark.slow
def test_a_client_that_does_not_read_is_not_listened_to() -> None:
    done = serving.unread(1000)
    assert done["answers"] == 1000  # of which a slow machine refuses some, since too many are under way
    assert done["sent_before_it_waited"] < 800
    assert done["waiting"] - done["before"] < 30 << 20


@pytest.mark.slow
def test_memory_stays_flat() -> None:
    done = serving.calls(240)
    assert done["tracebacks"] == 0
    assert done["memory"][-1] - done["memory"][2] < 15 << 20, done["memory"]


@pytest.mark.slow
def test_too_many_calls_under_way_are_refused_and_the_end_of_input_ends_them(long: Path) -> None:
    with serving.serving() as server:
        server.greet()
        for number in range(limits.REQUESTS + 10):
            server.send(serving.call(number, "check", path=str(long)))
        refused = [server.answer(limits.REQUESTS + number)["error"] for number in range(10)]
        assert {error["code"] for error in refused} == {limits.BUSY}
        server.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}})
        below = serving.below(server.process.pid)
        server.end()
        assert server.process.returncode == 0
        assert serving.gone(below) == []


@pytest.mark.slow
def test_odd_messages_break_nothing_and_read_and_run_nothing() -> None:
    done = serving.fuzz_stdio(1000, 7)
    assert {name: done[name] for name in NOTHING} == NOTHING


@pytest.mark.slow
def test_servers_that_start_together_build_one_index() -> None:
    done = serving.cold(8, 1)
    assert (done["answered"], done["built"], done["kept"].count("index")) == (8, 1, 1)


def test_the_evidence_is_of_large_numbers_and_has_no_fault() -> None:
    kept = json.loads(serving.EVIDENCE.read_text(encoding="utf-8"))
    odd = [kept["fuzz_stdio"], kept["fuzz_http"]]
    assert sum(part["requests"] for part in odd) >= 10_000
    assert all({name: part[name] for name in NOTHING} == NOTHING for part in odd)
    assert [(part["clients"], part["wrong"], part["tracebacks"]) for part in kept["clients"]] == [(64, 0, 0)] * 4
    memory = kept["calls"]["memory"]
    assert (kept["calls"]["calls"], max(memory[1:]) - memory[1] < 15 << 20) == (10_000, True)
    assert kept["unread"]["answers"] == 12_000
    assert kept["unread"]["waiting"] - kept["unread"]["before"] < 30 << 20
    assert [part["built"] for part in kept["cold"]] == [1, 1]
    assert {part["how"]: part["left"] for part in kept["deaths"]} == dict.fromkeys(("run", "server", "input", "client"), 0)


# Code of the user -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("how", ["run", "server", "input", "client"])
def test_nothing_outlives_a_run_that_ends_by_force(how: str) -> None:
    done = serving.deaths(how)
    assert done["left"] == 0
    assert done.get("next", "error_in_eager") == "error_in_eager"


@pytest.mark.parametrize(
    "name",
    "HF_TOKEN HUGGING_FACE_HUB_TOKEN OPENAI_API_KEY GITHUB_TOKEN AWS_SECRET_ACCESS_KEY AWS_PROFILE WANDB_API_KEY PGPASSWORD "
    "SSH_AUTH_SOCK AZURE_CLIENT_SECRET GOOGLE_APPLICATION_CREDENTIALS NPM_AUTH my_secret DB_PASSWORD_FILE SENTRY_DSN".split(),
)
def test_secrets_are_known_by_their_names(name: str) -> None:
    assert environment.is_secret(name, "x")


@pytest.mark.parametrize(
    "name",
    "PATH HOME TOKENIZERS_PARALLELISM KEYBOARD CUDA_VISIBLE_DEVICES NCCL_DEBUG PYTHONPATH LD_LIBRARY_PATH MASTER_ADDR "
    "TORCH_CUDA_ARCH_LIST LANG OMP_NUM_THREADS HF_HOME HF_HUB_OFFLINE AWS_REGION AWS_CA_BUNDLE "
    "PYTHONHASHSEED MONKEY PATTERN AUTHOR".split(),
)
def test_what_training_needs_is_no_secret(name: str) -> None:
    assert not environment.is_secret(name, "1")


def test_an_address_with_a_password_is_a_secret() -> None:
    assert environment.is_secret("DATABASE_URL", "postgres://me:pw@host/db")
    assert not environment.is_secret("HF_ENDPOINT", "https://host:443/path")


@pytest.mark.slow
@needs_torch
def test_code_that_is_run_gets_no_secrets_but_those_that_are_passed(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    names = ("MY_API_KEY", "HF_TOKEN", "PLAIN")
    code = (
        f"import os\nopen({str(seen)!r}, 'w').write(' '.join(n for n in {names} if n in os.environ))\nraise ValueError('no')\n"
    )
    (tmp_path / "step.py").write_text(code)
    words = ("--python", sys.executable, "--allow", str(tmp_path), "--pass", "HF_TOKEN")
    values: dict[str, Any] = {**dict.fromkeys(names, "x"), "CUDAGRAPH_SKILL_NO_GPU_NEEDED": "1", "CUDA_VISIBLE_DEVICES": ""}
    with serving.serving(*words, **values) as server:
        server.greet()
        server.ask("run_check", path="step.py", function="step")
        assert seen.read_text() == "HF_TOKEN PLAIN"
        assert "code that is run does not get" in server.said()
        assert "MY_API_KEY" in server.said()


@pytest.mark.slow
@needs_torch
def test_code_that_needs_too_much_memory_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "step.py").write_text("import time, torch\nheld = torch.ones(1 << 29)\ntime.sleep(100)\n")
    words = ("--python", sys.executable, "--allow", str(tmp_path), "--memory", "1")
    with serving.serving(*words, CUDAGRAPH_SKILL_NO_GPU_NEEDED="1", CUDA_VISIBLE_DEVICES="") as server:
        server.greet()
        result = server.ask("run_check", path="step.py", function="step")["result"]
        assert "it needed more than 1 GB of host memory; raise `skill serve --memory GB`" in result["content"][0]["text"]


@pytest.mark.slow
def test_a_call_that_waits_for_torch_ends_with_its_client(tmp_path: Path) -> None:
    slow = tmp_path / "python3"
    slow.write_text("#!/bin/sh\ntouch importing\nexec sleep 1000\n")
    slow.chmod(0o755)
    (tmp_path / "step.py").write_text("def step(x):\n    return x\n")
    with serving.serving("--python", str(slow), "--allow", str(tmp_path)) as server:
        server.greet()
        server.send(serving.call(1, "run_check", path="step.py:step"))
        end = time.monotonic() + 60
        while not (tmp_path / "importing").exists() and time.monotonic() < end:
            time.sleep(0.05)
        assert (tmp_path / "importing").exists()
        below = serving.below(server.process.pid)
        server.end(60)
        assert serving.gone(below) == []
