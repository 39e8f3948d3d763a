"""Ask real clients, each in an empty home folder, whether they take the plugin and what `skill install` writes.

    npm i @anthropic-ai/claude-code@2.1.197 @openai/codex @google/gemini-cli @anthropic-ai/mcpb skills node@24      in a FOLDER
    python tests/clients.py FOLDER UV > out.json     UV is the folder of the programs uv and uvx; exit 1 if a client refuses
    python tests/clients.py keep out.json            writes tests/evidence/clients.json

Where npm runs no scripts, `node install.cjs` in node_modules/@anthropic-ai/claude-code completes it. Nothing is logged in, and
no model is asked: the commands validate, install, list and connect. A row has the command, with folders by name, what was seen
of what is expected, and whether all of it was. `skill install` runs from the Python that runs this.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import manifests

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "tests" / "evidence" / "clients.json"
_SECONDS = 180


def shape(known: manifests.Facts | None = None) -> str:
    """Return a digest of the manifests without their words and version, which no client judges."""
    known = (known or manifests.facts())._replace(version="", title="", skill="", summary="", author="", keywords=[], server=[])
    return hashlib.sha256(json.dumps(manifests.made(known), sort_keys=True).encode()).hexdigest()[:16]


class Place:
    """A home folder for one client, with a clone of this commit and a project beside it."""

    def __init__(self, folder: Path, npm: Path, uv: Path) -> None:
        self.home, self.clone, self.project = folder / "home", folder / "clone", folder / "project"
        (self.home / ".config" / "uv").mkdir(parents=True)
        self.project.mkdir()
        (self.home / ".config" / "uv" / "uv.toml").write_text("system-certs = true\n")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.clone)], check=True)
        node = npm / "node_modules" / "node" / "bin"
        self.path = f"{node}:{npm / 'node_modules' / '.bin'}:{uv}:/usr/bin:/bin"
        self.rows: list[dict[str, Any]] = []

    def run(self, command: str, *expected: str, stdin: str = "", absent: str = "") -> str:
        """Run a command of a client, note which expected patterns were seen, and return the output."""
        words = [word.format(clone=self.clone, home=self.home) for word in command.split()]
        environment = {"HOME": str(self.home), "PATH": self.path, "NO_COLOR": "1", "DISABLE_TELEMETRY": "1"}
        if words[0] == "skill":
            words[:1] = [sys.executable, "-m", "cudagraph_skill"]
        done = subprocess.run(
            words, cwd=self.project, env=environment, input=stdin, capture_output=True, text=True, timeout=_SECONDS, check=False
        )
        said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout + done.stderr)
        lines = {pattern: next((line for line in said.splitlines() if re.search(pattern, line)), None) for pattern in expected}
        ok = done.returncode == 0 and None not in lines.values() and not (absent and re.search(absent, said))
        seen = [self._named(line.strip())[:200] for line in lines.values() if line is not None]
        self.rows.append({"command": self._named(command), "code": done.returncode, "seen": seen, "ok": ok})
        if not ok:
            print(self._named(f"{command}: {said[-2000:]}"), file=sys.stderr)
        return said

    def _named(self, text: str) -> str:
        for name, folder in (("clone", self.clone), ("project", self.project), ("home", self.home)):
            text = text.replace(f"{{{name}}}", f"<{name}>").replace(str(folder), f"<{name}>")
        return text.replace(str(Path(sys.executable).parent), "<bin>")

    def kept(self, client: str, configuration: str, listing: str, server: str) -> None:
        """Install and undo in a configuration that the client itself wrote, and compare bytes; then let the client list it."""
        path = self.home / configuration
        before = path.read_bytes()
        for what in ("server", "skill"):
            self.run(f"skill install {client} --as {what} --yes", "written;|copied;")
            self.run(f"skill install {client} --as {what} --undo --yes", "taken out")
        same = path.read_bytes() == before and not any((self.home / ".local" / "state" / "cudagraph-skill").glob("*"))
        seen = [f"{len(before)} bytes, as before, and no receipt is left"] if same else []
        self.rows.append({"command": f"compare <home>/{configuration}", "code": 0, "seen": seen, "ok": same})
        self.run(f"skill install {client} --yes", "written;")
        self.run(listing, server)
        self.run(f"skill install {client} --undo --yes", "taken out")
        self.run(listing, absent="cuda-graphs")


def claude(place: Place) -> str:
    """Return the version of Claude Code, after all that is asked of it."""
    version = place.run("claude --version", r"Claude Code")
    place.run("claude plugin validate {clone}", "Validation passed")
    place.run("claude plugin validate {clone}/.claude-plugin/plugin.json", "Validation passed")
    place.run("claude plugin marketplace add {clone}", "Successfully added")
    place.run("claude plugin install cuda-graphs@cudagraph-skill", "Successfully installed")
    place.run("claude plugin details cuda-graphs", r"Skills \(1\)", r"Always-on: +~\d+ tok", r"cuda-graphs +~\d+")
    place.run("uvx --from {clone}[mcp] cudagraph-skill --version", r"^skill \d")  # the first start installs packages
    place.run("claude mcp list", r"plugin:cuda-graphs.*Connected")
    place.run("claude plugin uninstall cuda-graphs@cudagraph-skill", "Successfully uninstalled")
    place.run("claude plugin marketplace remove cudagraph-skill", "Successfully removed")
    place.kept("claude", ".claude.json", "claude mcp list", r"^cuda-graphs: .*serve - .*Connected")
    return version.split()[0]


def codex(place: Place) -> str:
    """Return the version of Codex, after all that is asked of it."""
    version = place.run("codex --version", r"codex-cli")
    place.run("codex plugin marketplace add {clone}", "Added marketplace")
    place.run("codex plugin add cuda-graphs@cudagraph-skill", "Added plugin")
    place.run("codex plugin list", r"cuda-graphs@cudagraph-skill +installed, enabled")
    place.run("codex mcp list", r"^cuda-graphs +uvx +--from .*\[mcp\] cudagraph-skill serve")
    said = place.run("codex debug prompt-input hello")
    place.rows[-1] |= _listed(said, r"cuda-graphs:cuda-graphs: CUDA Graphs for PyTorch", r"skills/cuda-graphs/SKILL\.md")
    place.run("codex plugin remove cuda-graphs@cudagraph-skill", "Removed plugin")
    place.run("codex plugin marketplace remove cudagraph-skill", "Removed marketplace")
    place.run("codex mcp add other -- true", "Added")
    place.run("skill install codex --as skill --yes", "copied;")
    said = place.run("codex debug prompt-input hello")
    place.rows[-1] |= _listed(said, r"cuda-graphs: CUDA Graphs for PyTorch", r"r\d+/cuda-graphs/SKILL\.md")
    place.run("skill install codex --as skill --undo --yes", "taken out")
    place.kept("codex", ".codex/config.toml", "codex mcp list", r"^cuda-graphs +\S+ +serve")
    return version.split()[1]


def gemini(place: Place) -> str:
    """Return the version of Gemini CLI, after all that is asked of it."""
    folder = place.home / ".gemini"
    folder.mkdir()
    (folder / "trustedFolders.json").write_text(json.dumps({str(place.project): "TRUST_FOLDER"}))
    version = place.run("gemini --version", r"^\d+\.\d+")
    place.run("gemini extensions validate {clone}", "successfully validated")
    place.run("gemini extensions install {clone} --consent", "installed successfully", stdin="y\n")
    place.run("gemini skills list", r"^cuda-graphs \[Enabled\]", r"extensions/cuda-graphs/skills/cuda-graphs/SKILL\.md")
    place.run("uvx --from {home}/.gemini/extensions/cuda-graphs[mcp] cudagraph-skill --version", r"^skill \d")
    place.run("gemini mcp list", r"cuda-graphs \(from cuda-graphs\): .* Connected")
    place.run("gemini extensions uninstall cuda-graphs", "successfully uninstalled")
    place.run("gemini mcp add --scope user other true", "added")
    place.run("skill install gemini --as skill --yes", "copied;")
    place.run("gemini skills list", r"^cuda-graphs \[Enabled\]", r"\.gemini/skills/cuda-graphs/SKILL\.md")
    place.run("skill install gemini --as skill --undo --yes", "taken out")
    place.kept("gemini", ".gemini/settings.json", "gemini mcp list", r"cuda-graphs: .* Connected")
    return version.split()[0]


def mcpb(place: Place) -> str:
    """Return the version of the bundler, after it packed a bundle that starts."""
    version = place.run("mcpb --version", r"^\d")
    place.run("mcpb validate {clone}/.mcpb/manifest.json", "validation passes")
    manifests.bundle(place.home / "bundle")
    place.run("mcpb pack {home}/bundle {home}/cuda-graphs.mcpb", r"^name: cuda-graphs", r"^total files: \d+")
    place.run("uv run --quiet --directory {home}/bundle --extra mcp cudagraph-skill serve", absent="lacks|rror")
    return version.split()[0]


def skills(place: Place) -> str:
    """Return the version of the installer of Agent Skills, after it copied the skill."""
    version = place.run("skills --version", r"^\d")
    place.run("skills add {clone} --list", r"Found 1 skill", r"│ +cuda-graphs$")
    place.run("skills add {clone} --global --yes --copy --agent claude-code", r"cuda-graphs \(copied\)")
    place.run(
        "python3 {home}/.claude/skills/cuda-graphs/tools/explain.py 906",
        r"^references/errors-capture.md:.*capture-legacy-stream",
    )
    return version.split()[0]


def _listed(said: str, *patterns: str) -> dict[str, Any]:
    """Return what was seen of one long line, which is not kept whole."""
    found = [match[0] for pattern in patterns if (match := re.search(pattern, said))]
    return {"seen": found, "ok": len(found) == len(patterns)}


def asked(npm: Path, uv: Path) -> dict[str, Any]:
    """Return the answers of all clients."""
    clients = {}
    for ask in (claude, codex, gemini, mcpb, skills):
        with tempfile.TemporaryDirectory(prefix="clients-", ignore_cleanup_errors=True) as folder:
            place = Place(Path(folder).resolve(), npm, uv)
            version = ask(place)
            clients[ask.__name__] = {"version": version, "rows": place.rows}
    date = dt.datetime.now(tz=dt.UTC).date().isoformat()
    tool = subprocess.run([uv / "uv", "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    return {"date": date, "command": "python tests/clients.py FOLDER UV", "uv": tool, "shape": shape(), "clients": clients}


def main() -> int:
    """Ask, or keep what was said."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if sys.argv[1] == "keep":
        shutil.copyfile(sys.argv[2], EVIDENCE)
        return 0
    answers = asked(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
    print(json.dumps(answers, indent=1, ensure_ascii=False))
    return int(not all(row["ok"] for client in answers["clients"].values() for row in client["rows"]))


if __name__ == "__main__":
    sys.exit(main())
