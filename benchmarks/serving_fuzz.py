"""Requests as no good client sends them, for benchmarks/serving.py: the same ones for the same seed."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOOLS = ("search", "read", "errors", "explain", "check", "config", "recommend", "scaffold", "run_check", "run_bench", "nope")
METHODS = (
    "tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping", "resources/read", "prompts/get",
    "tools/call",     "completion/complete", "logging/setLevel", "sampling/createMessage", "roots/list",
    "server/discover", "no/such", "", "\0",
    "tools/call/../../", "initialize", "notifications/initialized",
)  # fmt: skip
ARGUMENTS = (
    "question", "limit", "page", "max_tokens", "ref", "offset", "log", "name", "path", "function", "source", "every", "python",
    "text", "kind", "versions", "arch", "environment", "framework", "workflow", "verify", "replace", "measure", "deadline", "x",
)  # fmt: skip


MODERN = "2026-07-28"
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "fuzz", "version": "1"},
}


_FITTING = (
    "check path", "check path", "check path function", "check source python", "check path python", "config path",
    "config path arch", "config text", "errors log", "read ref", "explain name", "search question", "scaffold path workflow",
    "run_check path function",     "check source", "run_bench workload",
)  # fmt: skip


class World(NamedTuple):
    """Folders of a run: what may be read, what may not, and the file that code of ours would write if it ran."""

    root: Path
    outside: Path
    ran: Path


def world(base: Path) -> World:
    """Make the folders: code that tells when it runs, links that lead out, pipes."""
    import os

    made = World(base / "root", base / "outside", base / "ran")
    for folder in (made.root, made.outside, made.root / "package"):
        folder.mkdir(parents=True)
    mark = f"open({str(made.ran)!r}, 'a').write('x')"
    code = f"{mark}\nimport secret, package.inner\nfrom secret import *\n\n\ndef step(x):\n    return x\n"
    for path in (made.root / "step.py", made.root / "package" / "__init__.py", made.root / "package" / "inner.py"):
        path.write_text(code)
    (made.outside / "secret.py").write_text("CANARY = 'canary-8c1f'\n\n\ndef step(x):\n    return x.item()  # canary-8c1f\n")
    (made.outside / "flags.sh").write_text("--cuda-graph-impl canary-8c1f\n")
    (made.root / "secret.py").symlink_to(made.outside / "secret.py")
    (made.root / "up").symlink_to(made.outside)
    for folder in (made.root, made.outside):
        os.mkfifo(folder / "pipe.py")
    (made.outside / "python3").write_text(f"#!/bin/sh\necho x >> {made.ran}\n")
    (made.outside / "python3").chmod(0o755)
    return made


class Fuzz:
    """Makes messages from a seed."""

    def __init__(self, seed: int, made: World, is_modern: bool = False) -> None:
        self._random, self.is_modern = random.Random(seed), is_modern
        self._paths = [
            *(str(made.outside / name) for name in ("secret.py", "flags.sh", "pipe.py", "python3", "nope.py", "")),
            "secret.py", "up/secret.py", "up", "pipe.py", "step.py", "step.py:step", "secret.py:step", ".", "..", "package",
            "../outside/secret.py", "./up/../up/flags.sh", f"{made.root}/../outside/secret.py:step", "/etc/passwd", "/dev/zero",
            "/dev/stdin", "/proc/self/environ", "/proc/self/mem", "-", "", "\0", "a" * 5000, "~/.ssh/id_rsa", "file:///etc/passwd",
            "step.py\0.py", "up/secret.py:" * 50, "//etc//shadow", "step.py:" + "x." * 900,
        ]  # fmt: skip

    def messages(self, count: int) -> Iterator[bytes]:
        """Yield the bytes of that many messages, each without an end of line in it."""
        kinds = (*(self._fitting,) * 3, self._call, *(self._method,) * 2, self._odd, self._broken, self._noise, self._huge)
        for number in range(count):
            yield self._random.choice(kinds)(number).replace(b"\n", b" ").replace(b"\r", b" ")

    def value(self, depth: int = 0) -> Any:  # noqa: PLR0911 - one for each type
        """Return a value of any type, often a path."""
        choose = self._random.randrange(12 if depth < 3 else 9)
        if choose < 4:
            return self._random.choice(self._paths)
        if choose == 4:
            return self._random.choice([0, -1, 1, 2**63, -(2**70), 1e308, 0.5, True, False, None])
        if choose == 5:
            return "".join(chr(self._random.choice([*range(32, 127), 0, 9, 0x7F, 0x3B1, 0xFFFD, 0x1F600])) for _ in range(30))
        if choose == 6:
            return self._random.choice(["share a pool", "CG201", "906", "references/hazards.md", "../../etc/passwd", "manual"])
        if choose == 7:
            return "def step(x):\n    return x.item()\n" + "(" * self._random.randrange(400)
        if choose == 8:
            return self._random.choice(["--cuda-graph-impl local", "a: [1, 2", "{", "!!python/object:os.system", "&a [*a, *a]"])
        if choose == 9:
            return [self.value(depth + 1) for _ in range(self._random.randrange(4))]
        return {self._random.choice(ARGUMENTS): self.value(depth + 1) for _ in range(self._random.randrange(4))}

    def _call(self, number: int) -> bytes:
        names = self._random.sample(ARGUMENTS, self._random.randrange(1, 4))
        asked = {name: self.value() for name in names}
        return self._wire(number, "tools/call", {"name": self._random.choice(TOOLS), "arguments": asked})

    def _fitting(self, number: int) -> bytes:
        """Return a call with arguments that the tool has, most of them paths."""
        tool, *names = self._random.choice(_FITTING).split()
        asked = {name: self._random.choice(self._paths) for name in names}
        return self._wire(number, "tools/call", {"name": tool, "arguments": asked})

    def _method(self, number: int) -> bytes:
        params = self._random.choice(
            [None, {}, {"name": self.value()}, {"uri": self.value()}, {"uri": "skill://cuda-graphs/" + "../" * 9}]
        )
        return self._wire(number, self._random.choice(METHODS), params)

    def _wire(self, number: int, method: str, params: Any) -> bytes:
        if self.is_modern and self._random.randrange(8):
            params = {**(params or {}), "_meta": _META}
        message = {"jsonrpc": "2.0", "id": f"f{number}", "method": method}
        return json.dumps(message if params is None else {**message, "params": params}).encode()

    def _odd(self, number: int) -> bytes:
        odd: list[Any] = [
            [], {}, 1, "x", None, {"jsonrpc": "1.0", "id": number, "method": "ping"},
            {"jsonrpc": "2.0", "id": None, "method": "ping"},
            {"jsonrpc": "2.0", "id": [1], "method": "ping"}, {"jsonrpc": "2.0", "id": number, "method": 7},
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": []},
            {"jsonrpc": "2.0", "id": number, "result": {}},
            {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": f"f{max(0, number - 1)}"}},
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": {}, "progress": "x"}},
            {"jsonrpc": "2.0", "method": "no/such", "params": self.value()}, {"jsonrpc": "2.0", "id": 2**70, "method": "ping"},
            [{"jsonrpc": "2.0", "id": number, "method": "ping"}] * 3,
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "search", "arguments": "x"}},
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": ["search"], "arguments": {}}},
            {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "read", "_meta": {"progressToken": 1}}},
        ]  # fmt: skip
        return json.dumps(self._random.choice(odd)).encode()

    def _broken(self, number: int) -> bytes:
        whole = bytearray(self._call(number))
        for _ in range(self._random.randrange(1, 6)):
            whole[self._random.randrange(len(whole))] = self._random.randrange(256)
        return bytes(whole[: self._random.randrange(1, len(whole) + 1)])

    def _noise(self, _: int) -> bytes:
        return self._random.randbytes(self._random.randrange(1, 300))

    def _huge(self, number: int) -> bytes:
        if self._random.randrange(6):
            return self._odd(number)
        deep = self._random.choice([100, 1_000, 100_000])
        choices = (
            b"[" * deep,
            b'{"a":' * deep,
            self._wire(number, "tools/call", {"name": "check", "arguments": {"source": "x = " + "[" * deep}}),
            self._wire(number, "tools/call", {"name": "search", "arguments": {"question": "pool " * deep}}),
            self._wire(number, "tools/call", {"name": "errors", "arguments": {"log": "CUDA error: capturing\n" * deep}}),
            self._wire(number, "tools/call", {"name": "read", "arguments": {"ref": "a#" * deep}}),
            self._wire(number, "x" * deep, {}),
        )
        return self._random.choice(choices)


def headers(random_: random.Random, host: str, session: str, message: bytes) -> list[tuple[str, str]]:
    """Return headers of an HTTP request that carries a message, most of them right; without a session of the stateless era."""
    right = {
        "Host": host,
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        **({"MCP-Protocol-Version": "2025-11-25", "Mcp-Session-Id": session} if session else _routing(message)),
    }
    if random_.randrange(4):
        return list(right.items())
    wrong = random_.choice([
        ("Host", "evil.example"), ("Host", ""), ("Origin", "http://evil.example"), ("Origin", "null"),
        ("Content-Type", "text/plain"),         ("Accept", "text/html"), ("MCP-Protocol-Version", "9999-99-99"),
        ("MCP-Protocol-Version", "\xff" * 50),
        ("Mcp-Session-Id", "../../etc/passwd"), ("Mcp-Session-Id", "a" * 9000), ("Authorization", "Bearer x"),
        ("Mcp-Method", "x"),         ("Authorization", "Bearer " + "a" * 5000), ("Authorization", "Basic ="),
        ("X-Forwarded-For", "1.2.3.4"),
        ("Cookie", "a" * 9000),         ("Content-Encoding", "gzip"), ("Mcp-Name", "\x7f"), ("Last-Event-ID", "1"),
        ("Mcp-Param-Question", "=?base64?!!?="),
    ])  # fmt: skip
    return [*{**right, wrong[0]: wrong[1]}.items()]


def _routing(message: bytes) -> dict[str, str]:
    """Return the headers that the stateless era repeats of a message."""
    try:
        given = json.loads(message)
        method, params = given["method"], given.get("params") or {}
        name = params.get("name") or params.get("uri")
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return {"MCP-Protocol-Version": MODERN}
    known = {"Mcp-Method": method, "Mcp-Name": name}
    shown = {key: value for key, value in known.items() if isinstance(value, str) and value.isprintable() and value.isascii()}
    return {"MCP-Protocol-Version": MODERN, **shown}
