"""How long a client waits for the MCP server, from process start to the answer to `initialize`, beside a bare one of the SDK.

    python benchmarks/start.py [STARTS]    with the interpreter that has the package installed; default: 15 starts of each

The servers take turns, so that a slow minute of the machine affects all of them. The first turn warms the page cache. CPU is of
the whole process, which ends after that answer: it tells more where other programs run besides.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parent.parent / "server" / "serve.py"
BARE = '''from mcp.server import MCPServer

server = MCPServer("bare")


@server.tool()
def echo(text: str) -> str:
    """Return the text."""
    return text


server.run("stdio")
'''
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "start", "version": "1"}}


def started(command: list[str]) -> tuple[float, float]:
    """Return the time from the start of a server to its first answer, and its CPU time, in ms."""
    begin = time.perf_counter()
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdin
    assert server.stdout
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO}) + "\n")
    server.stdin.flush()
    answer = server.stdout.readline()
    waited = time.perf_counter() - begin
    server.stdin.close()
    _, _, used = os.wait4(server.pid, 0)
    server.returncode = 0  # waited for above
    server.stdout.close()
    assert "serverInfo" in answer, f"{command} answered {answer!r}"
    return waited * 1e3, (used.ru_utime + used.ru_stime) * 1e3


def main() -> None:
    """Print the table."""
    starts = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder, "bare.py")
        bare.write_text(BARE)
        module = [sys.executable, "-m", "cudagraph_skill", "serve"]
        commands = {
            "a bare server: MCPServer, one tool": [sys.executable, str(bare)],
            "skill serve": module,
            "skill serve --allow FOLDER": [*module, "--allow", folder],
            "python server/serve.py": [sys.executable, str(LAUNCHER)],
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for turn in range(starts + 1):
            for name, command in commands.items():
                taken = started(command)
                if turn:
                    times[name].append(taken)
    print(
        f"Python {platform.python_version()}, mcp {version('mcp')}, {platform.machine()}, {starts} starts of each; milliseconds"
    )
    print(f"{'':<38}{'median':>9}{'least':>9}{'most':>9}{'ratio':>9}{'CPU':>9}{'ratio':>9}")
    base = [statistics.median(column) for column in zip(*next(iter(times.values())), strict=True)]
    for name, rows in times.items():
        waits, used = zip(*rows, strict=True)
        wait, cpu = statistics.median(waits), statistics.median(used)
        whole = f"{wait:>9.0f}{min(waits):>9.0f}{max(waits):>9.0f}{wait / base[0]:>8.2f}x{cpu:>9.0f}{cpu / base[1]:>8.2f}x"
        print(f"{name:<38}{whole}")


if __name__ == "__main__":
    main()
