"""Run MCP's conformance suite and its Inspector against the server, and keep what they said in tests/evidence/conformance.json.

    python tests/conformance.py        needs npm and the network, about four minutes; `test_conformance.py` reads what is kept

Node, the suite and the Inspector are installed into a temporary folder. The suite's requirement sets run on the server with the
suite's fixtures (`conformance_server.py fixture`), the scenarios of the Skills extension on the server as users get it. The
Inspector lists and calls every tool over stdio and HTTP, in both eras of the protocol, and verifies the skill.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml
from cudagraph_skill import __version__
from cudagraph_skill_server import app
from mcp import Client

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
EVIDENCE = HERE / "evidence" / "conformance.json"
NODE = "24.21.0"
SUITE, INSPECTOR = "@modelcontextprotocol/conformance", "@modelcontextprotocol/inspector"
PACKAGES = {SUITE: "0.2.0-alpha.12", INSPECTOR: "2.12.0"}
REVISIONS = ("2025-11-25", "2026-07-28")
EXTENSION = "sep-2640-skills-"  # how the suite names the scenarios of the Skills extension
ERAS = ("legacy", "modern")
ENTRY = "skill://cuda-graphs/SKILL.md"
STEP = "import torch\n\ndef step(x):\n    return x * 2\n\ndef inputs():\n    return (torch.ones(8, device='cuda'),)\n"
ARGUMENTS: dict[str, dict[str, Any]] = {
    "search": {"question": "how do I give a graph new inputs"},
    "read": {"ref": "SKILL.md#requirements"},
    "errors": {"log": "torch.AcceleratorError: CUDA error: capturing stream has unjoined work"},
    "explain": {"name": "CG201"},
    "check": {"source": STEP, "function": "step"},
    "config": {"text": "--cuda-graph-impl local", "versions": ["megatron-core==0.18"]},
    "recommend": {"training": True},
    "scaffold": {"workflow": "manual", "training": True},
    "run_check": {"path": "step.py", "function": "step", "inputs": "inputs"},
    "run_bench": {"deadline": 60},
}
READS: list[tuple[str, list[str]]] = [
    ("tools/list", ["--strict"]),
    ("prompts/list", []),
    ("prompts/get", ["--prompt-name", "why-did-capture-fail", "--prompt-args", "id=CG201"]),
    ("resources/list", []),
    ("resources/templates/list", []),
    ("resources/read", ["--uri", ENTRY]),
    ("resources/read", ["--uri", "cuda-graphs://section/SKILL.md#requirements"]),
]
SKILLS: list[tuple[str, list[str]]] = [
    ("skills/list", ["--verify", "--require-digests"]),
    ("skills/get", ["--uri", ENTRY, "--verify", "--require-digests"]),
    ("resources/directory/read", ["--uri", "skill://cuda-graphs/references"]),
]


class Programs(NamedTuple):
    """What npm installed: the folder, and the environment in which its programs find their Node and no settings of the user."""

    folder: Path
    environment: dict[str, str]

    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run one of the programs to its end."""
        command = [str(self.folder / "node_modules" / ".bin" / name), *arguments]
        return subprocess.run(command, env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False)


def installed(folder: Path) -> Programs:
    """Install Node, and with it the suite and the Inspector: both need a newer one than many machines have."""
    (folder / "home").mkdir()
    path = f"{folder / 'node_modules' / '.bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "HOME": str(folder / "home"), "MCP_INSPECTOR_SECRET_STORE": "memory"}
    for packages in ([f"node@{NODE}"], [f"{name}@{number}" for name, number in PACKAGES.items()]):
        command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", str(folder), *packages]
        subprocess.run(command, env=environment, cwd=folder, check=True, stdout=sys.stderr)
    return Programs(folder, environment)


@contextmanager
def served(kind: str) -> Iterator[str]:
    """Serve the product or the fixture over HTTP, and return its URL; it ends when its standard input closes."""
    command = [sys.executable, str(HERE / "conformance_server.py"), kind]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin
        assert server.stdout
        try:
            yield server.stdout.readline().strip()
        finally:
            server.stdin.close()


# The suite --------------------------------------------------------------------------------------------------------------


def checked(programs: Programs, url: str, *choice: str) -> dict[str, dict[str, int]]:
    """Return of each scenario how many of its checks ended how."""
    with tempfile.TemporaryDirectory(dir=programs.folder) as out:
        programs.run("conformance", "server", "--url", url, *choice, "-o", out)
        found = {}
        for path in sorted(Path(out).rglob("checks.json")):
            name = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*", "", path.parent.name)
            statuses = Counter(check["status"] for check in json.loads(path.read_text()))
            found[name] = dict(sorted(statuses.items()))
    return found


def required(programs: Programs, revision: str) -> list[str]:
    """Return the scenarios that a revision of the protocol requires of a server."""
    path = programs.folder / "node_modules" / SUITE / "requirements" / f"{revision}.yaml"
    names: list[str] = yaml.safe_load(path.read_text())["server"]
    return names


def of_revision(programs: Programs, url: str, revision: str) -> dict[str, Any]:
    """Return what came of the required scenarios; those that are not scored are counted apart."""
    found, wanted = checked(programs, url, "--requirements", revision), required(programs, revision)
    rest = {name: statuses for name, statuses in found.items() if name not in wanted}
    return {"required": {name: found.get(name, {}) for name in wanted}, "not_scored": rest}


def of_skills(programs: Programs, url: str) -> dict[str, dict[str, int]]:
    """Return what came of the scenarios of the Skills extension that are for servers."""
    listed = programs.run("conformance", "list").stdout.partition("Client scenarios")[0]
    names = [line.split()[1] for line in listed.splitlines() if line.startswith(f"  - {EXTENSION}")]
    return {name: checked(programs, url, "--scenario", name)[name] for name in names}


# The Inspector ----------------------------------------------------------------------------------------------------------


def inspected(programs: Programs, url: str) -> list[dict[str, Any]]:
    """Return a row for each request of the Inspector: transport, era, method, what was asked, its exit code."""
    code = programs.folder / "code"
    code.mkdir()
    (code / "step.py").write_text(STEP)
    serve = ["-m", "cudagraph_skill", "serve", "--python", sys.executable, "--allow", str(code)]
    servers = {"stdio": {"command": sys.executable, "args": serve}, "http": {"type": "streamable-http", "url": url}}
    (programs.folder / "servers.json").write_text(json.dumps({"mcpServers": servers}))
    rows = []
    for transport in servers:
        for era in ERAS:
            listed = _inspect(programs, transport, era, "tools/list", [])
            tools = [tool["name"] for tool in json.loads(listed.stdout)["result"]["tools"]]
            calls = [("tools/call", ["--tool-name", name, "--tool-args-json", json.dumps(ARGUMENTS[name])]) for name in tools]
            for method, options in [*READS, *SKILLS, *calls]:
                done = _inspect(programs, transport, era, method, options)
                rows.append(_row(transport, era, method, options, done))
    return rows


def _inspect(programs: Programs, server: str, era: str, method: str, options: list[str]) -> subprocess.CompletedProcess[str]:
    of_server = ["--config", str(programs.folder / "servers.json"), "--server", server, "--protocol-era", era]
    return programs.run("mcp-inspector", "--cli", *of_server, "--format", "json", "--method", method, *options)


def _row(transport: str, era: str, method: str, options: list[str], done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    row: dict[str, Any] = {"transport": transport, "era": era, "method": method, "exit": done.returncode}
    if method == "tools/call":
        row["tool"] = options[1]
    elif options:
        row["options"] = options
    if "--verify" in options and done.returncode == 0:
        row["verified"] = sum(file["status"] == "verified" for file in json.loads(done.stdout)["files"])
    if done.returncode:
        row["said"] = _error(done.stderr)
    return row


def _error(lines: str) -> str:
    """Return the error that the Inspector printed."""
    found = [json.loads(line)["error"]["message"] for line in lines.splitlines() if line.startswith('{"error"')]
    return found[-1] if found else lines[-200:]


# What is kept -----------------------------------------------------------------------------------------------------------


def offered(folder: Path) -> dict[str, Any]:
    """Return what the server says of itself where it may run code: its version, and names and a digest of what it offers."""

    async def ask() -> dict[str, Any]:
        async with Client(app.build(allowed=[folder])) as client:
            lists: dict[str, list[Any]] = {
                "tools": (await client.list_tools()).tools,
                "prompts": (await client.list_prompts()).prompts,
                "templates": (await client.list_resource_templates()).resource_templates,
            }
            return {name: [each.model_dump(mode="json", exclude_none=True) for each in rows] for name, rows in lists.items()}

    lists = asyncio.run(ask())
    digest = hashlib.sha256(json.dumps(lists, sort_keys=True).encode()).hexdigest()
    return {
        "version": __version__,
        "definitions": digest,
        **{name: [row["name"] for row in rows] for name, rows in lists.items()},
    }


def main() -> None:
    """Run everything and write the evidence."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        programs = installed(folder)
        with served("fixture") as url:
            revisions = {revision: of_revision(programs, url, revision) for revision in REVISIONS}
        with served("product") as url:
            skills, inspector = of_skills(programs, url), inspected(programs, url)
        kept = {
            "date": datetime.now(UTC).date().isoformat(),
            "command": "python tests/conformance.py",
            "versions": {"node": NODE, **PACKAGES, "mcp": version("mcp"), "python": platform.python_version()},
            "server": offered(folder),
            "revisions": revisions,
            "skills": skills,
            "inspector": inspector,
        }
    EVIDENCE.write_text(json.dumps(kept, indent=1) + "\n")
    for revision, found in revisions.items():
        print(revision, _summary(found["required"]), "and, not scored,", _summary(found["not_scored"]))
    print("Skills extension", _summary(skills))
    print("Inspector:", Counter(row["exit"] for row in inspector))


def _summary(scenarios: dict[str, dict[str, int]]) -> str:
    total = sum((Counter(statuses) for statuses in scenarios.values()), Counter())
    passed = sum("SUCCESS" in statuses and "FAILURE" not in statuses for statuses in scenarios.values())
    return f"{passed} of {len(scenarios)} scenarios, checks {dict(total)}"


if __name__ == "__main__":
    main()
