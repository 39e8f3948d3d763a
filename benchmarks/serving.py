"""The MCP server under load, abuse and death, as processes of their own on this machine; Linux.

    python benchmarks/serving.py run > out.json    all of it: about ten minutes on two cores
    python benchmarks/serving.py gpu > out.json    `deaths` of runs that hold a GPU, on a machine with one
    python benchmarks/serving.py keep out.json     joins it into benchmarks/evidence/serving.json

`clients`: many HTTP clients that ask `search`. `calls`: memory of the server over many calls, read and unread. `fuzz`: requests
of `serving_fuzz`, over both transports. `cold`: a fresh cache. `deaths`: what is left when the server or a run is killed.
Tests run the same functions with small numbers.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import platform
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import serving_fuzz

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

import on_gpu  # noqa: E402

EVIDENCE = ROOT / "benchmarks" / "evidence" / "serving.json"
QUESTIONS = (
    "share a pool between graphs",
    "capture_error_mode",
    "replay returns the same result",
    "906",
    "make_graphed_callables",
)
_PATIENCE = 60.0  # seconds for an answer of a busy machine
_ERA = "2025-11-25"
_HELLO = {"protocolVersion": _ERA, "capabilities": {}, "clientInfo": {"name": "serving", "version": "1"}}


# Servers --------------------------------------------------------------------------------------------------------------


class Server:
    """`skill serve` as a process; over HTTP it has a `url`."""

    def __init__(self, *words: str, http: bool = False, **environment: Any) -> None:
        paths = os.pathsep.join(filter(None, [str(ROOT / "tools"), str(ROOT / "server"), os.environ.get("PYTHONPATH", "")]))
        command = [sys.executable, "-m", "cudagraph_skill", "serve", *(["--http", "0"] if http else []), *words]
        self._asked = 0
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self.process = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": paths, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self.port = self._port() if http else 0

    def _port(self) -> int:
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            if found := re.search(r"listening on http://127\.0\.0\.1:(\d+)/mcp", self.said()):
                return int(found[1])
            time.sleep(0.05)
        raise RuntimeError(f"the server does not listen: {self.said()}")

    def said(self) -> str:
        """Return what is on its standard error."""
        return os.pread(self.errors.fileno(), 1 << 22, 0).decode("utf-8", "replace")

    def memory(self) -> int:
        """Return the bytes that its processes have, pages that they share once."""
        total = 0
        for pid in (self.process.pid, *below(self.process.pid)):
            with suppress(OSError):
                text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
                total += 1024 * int(text.partition("\nPss:")[2].split()[0])
        return total

    def send(self, message: dict[str, Any] | bytes) -> None:
        """Write one message to its standard input."""
        self.stdin.write(message + b"\n" if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")
        self.stdin.flush()

    def answer(self, name: Any) -> dict[str, Any]:
        """Return the answer of that id, and pass over others."""
        while line := self.stdout.readline():
            message = json.loads(line)
            if message.get("id") == name and "method" not in message:
                return dict(message)
        raise RuntimeError(f"the server ended before it answered {name}: {self.said()}")

    def greet(self) -> None:
        """Do the handshake."""
        self.send({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": _HELLO})
        self.answer("hello")
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def ask(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool and return its answer."""
        self._asked += 1
        self.send(call(f"asked-{self._asked}", tool, **arguments))
        return self.answer(f"asked-{self._asked}")

    def end(self, patience: float = 30.0) -> float:
        """Close its input, or where it listens on a port send a signal; return the seconds until it ended."""
        start = time.monotonic()
        if self.port:
            self.process.terminate()
        else:
            with suppress(OSError):
                self.stdin.close()
        try:
            self.process.wait(patience)
        finally:
            self.close()
        return time.monotonic() - start

    def close(self) -> None:
        """Kill it, if it runs."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.stdin, self.stdout, self.errors):
            with suppress(OSError):
                pipe.close()


@contextmanager
def serving(*words: str, http: bool = False, **environment: Any) -> Iterator[Server]:
    """Yield a server, which is killed at the end."""
    server = Server(*words, http=http, **environment)
    try:
        yield server
    finally:
        server.close()


def call(number: Any, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """Return the message that calls a tool."""
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def below(pid: int) -> list[int]:
    """Return the living processes below one."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):
                state, parent = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
                if state not in ("Z", "X"):
                    children.setdefault(int(parent), []).append(int(folder.name))
    found, waiting = [], [pid]
    while waiting:
        found += (next_ones := children.get(waiting.pop(), []))
        waiting += next_ones
    return found


def gone(pids: list[int], patience: float = 20.0) -> list[int]:
    """Wait until none of the processes lives; return those that still do."""
    end = time.monotonic() + patience
    while (living := [pid for pid in pids if _lives(pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    return living


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


# HTTP -----------------------------------------------------------------------------------------------------------------


class Connection:
    """One client over HTTP/1.1, byte by byte, so that it can be wrong too."""

    def __init__(self, port: int, token: str = "") -> None:
        self._port, self._token, self.session = port, token, ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, message: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the status and the answer to a message."""
        headers = [
            ("Host", f"127.0.0.1:{self._port}"),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", _ERA),
        ]
        headers += [("Authorization", f"Bearer {self._token}")] * bool(self._token)
        headers += [("Mcp-Session-Id", self.session)] * bool(self.session)
        status, given, body = await self.send("POST /mcp", headers, json.dumps(message).encode())
        self.session = given.get("mcp-session-id", self.session)
        data = body.partition(b"data: ")[2].splitlines()[0] if body.startswith(b"event:") else body
        return status, json.loads(data) if data.startswith(b"{") else {}  # the SDK refuses some requests in plain text

    async def greet(self) -> None:
        """Do the handshake."""
        await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": _HELLO})
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def send(self, line: str, headers: list[tuple[str, str]], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Send a request as it is and return status, headers and body of the answer; status 0 where the server hung up."""
        if self._streams is None or self._streams[1].is_closing():
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        head = "".join(f"{name}: {value}\r\n" for name, value in [*headers, ("Content-Length", str(len(body)))])
        try:
            writer.write(f"{line} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + body)
            await writer.drain()
            return await asyncio.wait_for(self._received(reader), _PATIENCE)
        except (OSError, asyncio.IncompleteReadError, ValueError):
            self.close()
            return 0, {}, b""

    async def _received(self, reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
        status = int((await reader.readuntil(b"\r\n")).split()[1])
        given: dict[str, str] = {}
        while (line := (await reader.readuntil(b"\r\n")).strip()) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            given[name.lower()] = value.strip()
        if given.get("transfer-encoding") == "chunked":
            body = b""
            while size := int((await reader.readuntil(b"\r\n")).strip(), 16):
                body += (await reader.readexactly(size + 2))[:-2]
            await reader.readuntil(b"\r\n")
        else:
            body = await reader.readexactly(int(given.get("content-length", 0)))
        if given.get("connection") == "close":
            self.close()
        return status, given, body

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


# Load -----------------------------------------------------------------------------------------------------------------


def clients(count: int, each: int, pause: float) -> dict[str, Any]:
    """Let clients ask `search`, each with a pause before each question; return seconds of an answer and how many were wrong."""
    with serving(http=True) as server:
        alone, _ = asyncio.run(_asked(server.port, 1, max(each, 50), 0.0))
        together, wrong = asyncio.run(_asked(server.port, count, each, pause))
        said = server.said()
    return {
        "clients": count,
        "questions": len(together),
        "pause": pause,
        "alone": {"median": _rounded(median(alone))},
        "together": {"median": _rounded(median(together)), "p99": _rounded(quantiles(together, n=100)[98])},
        "ratio": _rounded(quantiles(together, n=100)[98] / median(alone)),
        "wrong": wrong,
        "tracebacks": said.count("Traceback"),
        "load": _rounded(os.getloadavg()[0]),  # of other programs too
    }


async def _asked(port: int, count: int, each: int, pause: float) -> tuple[list[float], int]:
    times: list[float] = []
    wrong = 0
    greeted = asyncio.Barrier(count)

    async def client(number: int) -> None:
        nonlocal wrong
        connection = Connection(port)
        await connection.greet()
        await connection.post(call(1, "search", question=QUESTIONS[0]))
        await greeted.wait()  # a handshake is no question
        await asyncio.sleep(random.Random(number).random() * pause)
        for asked in range(each):
            start = time.perf_counter()
            question = QUESTIONS[(asked + number) % len(QUESTIONS)]
            status, answer = await connection.post(call(asked, "search", question=question))
            times.append(time.perf_counter() - start)
            is_right = status == 200 and answer["result"].get("structuredContent", {}).get("results")
            wrong += not is_right
            await asyncio.sleep(max(0.0, pause - times[-1]))
        connection.close()

    await asyncio.gather(*(client(number) for number in range(count)))
    return times, wrong


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def calls(count: int) -> dict[str, Any]:
    """Return the memory of a server over that many calls whose answers are read, in bytes, after each tenth of them."""
    log = "CUDA error: capturing stream has unjoined work\n" * 20
    kinds: list[tuple[str, dict[str, Any]]] = [
        *(("search", {"question": question}) for question in QUESTIONS),
        ("read", {"ref": "references/hazards.md"}),
        ("explain", {"name": "CG201"}), ("recommend", {"training": True}), ("scaffold", {"workflow": "manual"}),
        ("errors", {"log": log}), ("config", {"text": "--cuda-graph-impl local"}),
        ("check", {"source": "def step(x):\n    return x.item()\n", "every": True}),
    ]  # fmt: skip
    with serving() as server:
        server.greet()
        for tool, arguments in kinds:
            server.ask(tool, **arguments)
        memory = [server.memory()]
        for number in range(count):
            tool, arguments = kinds[number % len(kinds)]
            answer = server.ask(tool, **arguments)
            assert not answer["result"].get("isError"), answer
            if (number + 1) % max(1, count // 10) == 0:
                memory.append(server.memory())
        return {"calls": count, "memory": memory, "tracebacks": server.said().count("Traceback")}


def unread(count: int) -> dict[str, Any]:
    """Send calls without reading an answer, as far as the server takes them; return its memory, then read them all."""
    with serving() as server:
        server.greet()
        server.ask("search", question=QUESTIONS[0])
        before = server.memory()
        message = b" " * 300 + json.dumps(call("x", "search", question=QUESTIONS[0])).encode()
        os.set_blocking(server.stdin.fileno(), False)
        data = memoryview(b"".join(message.replace(b'"x"', str(number).encode()) + b"\n" for number in range(count)))
        taken, stuck = 0, 0
        while taken < len(data) and stuck < 4:  # two seconds without a byte taken: it waits
            if select.select([], [server.stdin], [], 0.5)[1]:
                taken, stuck = taken + os.write(server.stdin.fileno(), data[taken : taken + 65536]), 0
            else:
                stuck += 1
        waiting = server.memory()
        os.set_blocking(server.stdin.fileno(), True)
        answers = _drained(server, data[taken:], count)
        return {"calls": count, "sent_before_it_waited": taken // len(message), "before": before, "waiting": waiting, **answers}


def _drained(server: Server, rest: memoryview, count: int) -> dict[str, Any]:
    """Send the rest while answers are read; return how many came."""
    from threading import Thread

    def send() -> None:
        server.stdin.write(rest)
        server.stdin.flush()

    sender = Thread(target=send, daemon=True)
    sender.start()
    answers = [json.loads(server.stdout.readline()) for _ in range(count)]
    sender.join()
    busy = sum("error" in answer for answer in answers)
    return {"answers": len({answer["id"] for answer in answers}), "refused_as_too_many": busy, "after": server.memory()}


# Abuse ----------------------------------------------------------------------------------------------------------------


class Watch:
    """Counts how often files of a folder were opened, by inotify."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        opened = 0x20
        assert self._fd >= 0
        assert libc.inotify_add_watch(self._fd, os.fsencode(folder), opened) >= 0

    def opened(self) -> int:
        """Return how often since the last look."""
        with suppress(BlockingIOError):
            return len(os.read(self._fd, 1 << 20)) // 16
        return 0


def fuzz_stdio(count: int, seed: int) -> dict[str, Any]:
    """Send odd messages over standard input, and see that the server goes on, reads nothing outside and runs nothing."""
    with tempfile.TemporaryDirectory() as folder, _world(folder) as (made, server):
        watch = Watch(made.outside)
        server.greet()
        messages = list(serving_fuzz.Fuzz(seed, made).messages(count))
        text = _exchanged(server, messages)
        return {"requests": count, "seed": seed, **_judged(server, made, watch, text), "answers": text.count("\n")}


@contextmanager
def _world(folder: str, http: bool = False) -> Iterator[tuple[serving_fuzz.World, Server]]:
    made = serving_fuzz.world(Path(folder).resolve())
    with serving("--read", str(made.root), http=http) as server:
        yield made, server


def _exchanged(server: Server, messages: list[bytes]) -> str:
    """Send messages while answers are read, then a ping; return all answers."""
    from threading import Thread

    def send() -> None:
        for message in messages:
            with suppress(OSError):
                server.send(message)
        server.send({"jsonrpc": "2.0", "id": "last", "method": "ping"})

    sender = Thread(target=send, daemon=True)
    sender.start()
    lines = []
    while line := server.stdout.readline().decode("utf-8", "replace"):
        lines.append(line)
        if '"id":"last"' in line.replace(" ", ""):
            break
    sender.join(_PATIENCE)
    return "".join(lines)


def _judged(server: Server, made: serving_fuzz.World, watch: Watch, text: str) -> dict[str, Any]:
    said = server.said()
    return {
        "crashed": server.process.poll() is not None,
        "tracebacks": (said + text).count("Traceback"),
        "bugs": len(re.findall("bug in the server", text)),
        "leaks": text.count("canary-8c1f"),
        "opened_outside": watch.opened(),
        "code_ran": made.ran.exists(),
        "said": sorted(set(said.splitlines()[1:]))[:5] if server.port else sorted(set(said.splitlines()))[:5],
    }


def fuzz_http(count: int, seed: int) -> dict[str, Any]:
    """Send odd requests over HTTP, with right and wrong headers, from 16 clients."""
    with tempfile.TemporaryDirectory() as folder, _world(folder, True) as (made, server):
        watch = Watch(made.outside)
        statuses, text = asyncio.run(_odd(server.port, count, seed, made))
        return {"requests": count, "seed": seed, **_judged(server, made, watch, text), "statuses": statuses}


async def _odd(port: int, count: int, seed: int, made: serving_fuzz.World) -> tuple[dict[str, int], str]:
    statuses: dict[str, int] = {}
    texts: list[str] = []

    async def client(number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        connection, right = Connection(port), Connection(port)
        await right.greet()
        session = right.session
        is_modern = bool(number % 2)
        for message in serving_fuzz.Fuzz(seed * 1000 + number, made, is_modern).messages(count // 16):
            line = chance.choice(
                ["POST /mcp"] * 40 + ["GET /nope", "PUT /mcp", "PATCH /mcp", "POST /mcp/../x", "OPTIONS *", "\0"]
            )
            headers = serving_fuzz.headers(chance, f"127.0.0.1:{port}", "" if is_modern else session, message)
            status, _, body = await connection.send(line, headers, message)
            statuses[str(status)] = statuses.get(str(status), 0) + 1
            texts.append(body.decode("utf-8", "replace"))
            if not chance.randrange(20):
                connection.close()
        last = Connection(port)
        status, answer = await last.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO})
        assert status == 200, answer
        for opened in (connection, right, last):
            opened.close()

    await asyncio.gather(*(client(number) for number in range(16)))
    return dict(sorted(statuses.items())), "\n".join(texts)


# Starts and ends ------------------------------------------------------------------------------------------------------


def cold(servers: int, together: int) -> dict[str, Any]:
    """Start servers with a fresh cache, and ask each that many questions at once; return how many built the index."""
    with tempfile.TemporaryDirectory() as folder:
        started = [Server(CUDAGRAPH_SKILL_CACHE=folder) for _ in range(servers)]
        try:
            for server in started:
                server.greet()
            for server in started:
                for number in range(together):
                    server.send(call(number, "search", question=QUESTIONS[number % len(QUESTIONS)]))
            right = 0
            for server in started:
                for _ in range(together):
                    answer = json.loads(server.stdout.readline())
                    right += bool(answer.get("result", {}).get("structuredContent", {}).get("results"))
            built = sum(server.said().count("files, once: it is kept in") for server in started)
            kept = sorted(path.name.partition("-")[0] for path in Path(folder).iterdir())
        finally:
            for server in started:
                server.close()
    return {"servers": servers, "questions_at_once": together, "answered": right, "built": built, "kept": kept}


HANG = """
import os, subprocess, sys
import torch
x = torch.ones(512, 512, device={device!r})
(x @ x).sum().item()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(999)"], start_new_session=True)
with open({note!r}, "w") as file:
    file.write(f"{{os.getpid()}} {{child.pid}}")
while True:
    (x @ x).sum().item()
"""
GOOD = "import torch\nraise ValueError('as expected')\n"


def deaths(how: str, device: str = "cpu") -> dict[str, Any]:
    """Return what is left where the `run` or the `server` is killed, or its `input` or, as of a dead `client`, all pipes close.

    Meanwhile torch computes on a device, in a function that `run_check` imports. `mib` is the memory of the GPU that is used
    before the server starts, while torch computes, and after.
    """
    on_cpu: dict[str, Any] = {"CUDAGRAPH_SKILL_NO_GPU_NEEDED": "1", "CUDA_VISIBLE_DEVICES": ""} if device == "cpu" else {}
    used = [_gpu_memory()] if device == "cuda" else []
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        note = base / "pids"
        (base / "hang.py").write_text(HANG.format(note=str(note), device=device), encoding="utf-8")
        (base / "good.py").write_text(GOOD, encoding="utf-8")
        words = ("--python", sys.executable, "--allow", folder)
        with serving(*words, **on_cpu) as server:
            server.greet()
            server.send(call("hang", "run_check", path="hang.py", function="step", deadline=300))
            end = time.monotonic() + 3 * _PATIENCE
            while not (note.exists() and note.read_text(encoding="ascii")) and time.monotonic() < end:
                time.sleep(0.05)
            running, detached = map(int, note.read_text(encoding="ascii").split())
            pids = below(server.process.pid)
            assert {running, detached} <= set(pids)
            used += [_gpu_memory()] if used else []
            start = time.monotonic()
            answered = _killed(how, server, running)
            left = gone([running, detached] if how == "run" else pids)
            row = {"how": how, "left": len(left), "seconds": _rounded(time.monotonic() - start), **answered}
    return {**row, "mib": [*used, _gpu_memory()]} if used else row


def _gpu_memory() -> int:
    """Return the MiB of the first GPU that are in use."""
    query = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    return int(subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()[0])


def _killed(how: str, server: Server, running: int) -> dict[str, Any]:
    if how == "server":
        server.process.kill()
    elif how in ("input", "client"):
        server.stdin.close()
        if how == "client":
            server.stdout.close()
    else:
        os.kill(running, signal.SIGKILL)
        first = server.answer("hang")["result"]["content"][0]["text"].partition("\n")[0]
        second = server.ask("run_check", path="good.py", function="step")["result"]
        return {"said": first, "next": second["structuredContent"]["verdict"]}
    server.process.wait(_PATIENCE)
    return {}


# The run --------------------------------------------------------------------------------------------------------------


def _run() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CUDAGRAPH_SKILL_CACHE"] = folder  # not that of the user
        with serving() as server:
            server.greet()
            server.ask("search", question=QUESTIONS[0])
        parts: dict[str, Any] = {
            "clients": [*(clients(64, 60, 1.0) for _ in range(3)), clients(64, 30, 0.0)],
            "calls": calls(10_000),
            "unread": unread(12_000),
            "fuzz_stdio": fuzz_stdio(5_000, 1),
            "fuzz_http": fuzz_http(5_008, 1),
            "cold": [cold(1, 8), cold(8, 1)],
            "deaths": [deaths(how) for how in ("run", "server", "input", "client")],
        }
    return {
        "date": date.today().isoformat(),
        "command": "python benchmarks/serving.py run",
        "machine": {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.system()},
        "versions": {name: version(name) for name in ("mcp", "anyio", "starlette", "uvicorn", "pydantic", "torch")},
        **parts,
    }


def _run_on_gpu() -> dict[str, Any]:
    machine = on_gpu.machine("python benchmarks/serving.py gpu")
    return {"on_gpu": {**machine, "deaths": [deaths(how, "cuda") for how in ("run", "server", "input", "client")]}}


def _keep(file: str) -> None:
    kept, new = (json.loads(path.read_text(encoding="utf-8")) for path in (EVIDENCE, Path(file)))
    EVIDENCE.write_text(json.dumps(kept | new, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["run"]:
            print(json.dumps(_run(), indent=1))
        case ["gpu"]:
            print(json.dumps(_run_on_gpu(), indent=1))
        case ["keep", file]:
            _keep(file)
        case _:
            sys.exit(__doc__)
