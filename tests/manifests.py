"""Write what clients and registries read of this project, all of it from pyproject.toml, SKILL.md, card.yaml and `__version__`.

    python tests/manifests.py write            writes the files below, and the version into SKILL.md and card.yaml
    python tests/manifests.py check            exit 1 if one is not what would be written, and which
    python tests/manifests.py bundle FOLDER    puts the files of an MCPB bundle there; `mcpb pack FOLDER` makes one file of them

The repository is a plugin as it is: `skills/` has a skill that leads to SKILL.md, the server is started with uv, which installs
it from the plugin's own folder. A new client is a function of the facts and a row of `FILES`.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
_AGENT_PLUGINS = "https://agent-plugins.org/schemas/1.0.0/{}.schema.json"
_REGISTRY = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_BUNDLED = ("pyproject.toml", "README.md", "LICENSE", "SKILL.md", "card.yaml", "references", "questions", "tools", "server")


class Facts(NamedTuple):
    """Hold what the files say: `title` and `skill` as SKILL.md has them, `summary` as pyproject.toml has it."""

    name: str
    title: str
    skill: str
    summary: str
    version: str
    author: str
    license: str
    keywords: list[str]
    package: str
    python: str
    server: list[str]
    registry: str


def facts() -> Facts:
    """Return what is stated once: the package in pyproject.toml, the skill in SKILL.md, the registry's name in card.yaml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "SKILL.md").read_text(encoding="utf-8")
    front = yaml.safe_load(text.split("---\n")[1])
    title = re.search(r"^# (.+)$", text, re.MULTILINE)
    version = re.search(r'^__version__ = "(.+)"$', (ROOT / "tools/cudagraph_skill/__init__.py").read_text(), re.MULTILINE)
    if title is None or version is None:
        sys.exit('SKILL.md has no heading `# …`, or tools/cudagraph_skill/__init__.py no line `__version__ = "…"`')
    return Facts(
        name=front["name"],
        title=title[1],
        skill=" ".join(front["description"].split()),
        summary=project["description"],
        version=version[1],
        author=project["authors"][0]["name"],
        license=project["license"],
        keywords=project["keywords"],
        package=project["name"],
        python=project["requires-python"],
        server=project["optional-dependencies"]["mcp"],
        registry=yaml.safe_load((ROOT / "card.yaml").read_text(encoding="utf-8"))["registry"],
    )


def _about(known: Facts) -> dict[str, Any]:
    return {
        "name": known.name,
        "version": known.version,
        "description": known.summary,
        "author": {"name": known.author},
        "license": known.license,
        "keywords": known.keywords,
    }


def _server(known: Facts, folder: str) -> dict[str, Any]:
    """Return how a client starts the server from the folder of the plugin, which it names by a variable of its own."""
    return {known.name: {"command": "uvx", "args": ["--from", f"{folder}[mcp]", known.package, "serve"]}}


def _claude(known: Facts) -> dict[str, Any]:
    return {**_about(known), "mcpServers": _server(known, "${CLAUDE_PLUGIN_ROOT}")}


def _claude_marketplace(known: Facts) -> dict[str, Any]:
    entry = {"name": known.name, "source": "./", "description": known.summary, "category": "development"}
    return {"name": known.package, "owner": {"name": known.author}, "description": known.summary, "plugins": [entry]}


def _agent_plugin(known: Facts) -> dict[str, Any]:
    return {"$schema": _AGENT_PLUGINS.format("plugin"), **_about(known)}


def _agent_servers(known: Facts) -> dict[str, Any]:
    servers = {name: {"type": "stdio", **entry} for name, entry in _server(known, "${PLUGIN_ROOT}").items()}
    return {"$schema": _AGENT_PLUGINS.format("mcp"), "mcpServers": servers}


def _codex_marketplace(known: Facts) -> dict[str, Any]:
    entry = {
        "name": known.name,
        "source": {"source": "local", "path": "./"},
        "policy": {"installation": "AVAILABLE", "authentication": "ON_INSTALL"},
        "category": "Coding",
    }
    return {"name": known.package, "interface": {"displayName": known.title}, "plugins": [entry]}


def _cursor_marketplace(known: Facts) -> dict[str, Any]:
    entry = {"name": known.name, "source": "./", "description": known.summary}
    return {
        "name": known.package,
        "owner": {"name": known.author},
        "metadata": {"description": known.summary},
        "plugins": [entry],
    }


def _gemini(known: Facts) -> dict[str, Any]:
    servers = _server(known, "${extensionPath}")
    return {"name": known.name, "version": known.version, "description": known.summary, "mcpServers": servers}


def _registry(known: Facts) -> dict[str, Any]:
    package = {
        "registryType": "pypi",
        "identifier": known.package,
        "version": known.version,
        "runtimeHint": "uvx",
        "runtimeArguments": [{"type": "named", "name": "--with", "value": requirement} for requirement in known.server],
        "packageArguments": [{"type": "positional", "value": "serve"}],
        "transport": {"type": "stdio"},
    }
    return {
        "$schema": _REGISTRY,
        "name": known.registry,
        "title": known.title,
        "description": known.summary,
        "version": known.version,
        "packages": [package],
    }


def _bundle(known: Facts) -> dict[str, Any]:
    run = ["run", "--directory", "${__dirname}", "--extra", "mcp", known.package, "serve"]
    return {
        "manifest_version": "0.4",
        **_about(known),
        "display_name": known.title,
        "long_description": known.skill,
        "server": {"type": "uv", "entry_point": "server/serve.py", "mcp_config": {"command": "uv", "args": run}},
        "tools_generated": True,
        "compatibility": {"platforms": ["linux"], "runtimes": {"python": known.python}},
    }


def _leading_skill(known: Facts) -> str:
    """Return a skill of few words: clients look for skills in `skills/`, and the skill itself is the whole repository."""
    front = yaml.safe_dump(
        {"name": known.name, "description": known.skill, "license": known.license}, sort_keys=False, width=120
    )
    return (
        f"---\n{front}---\n\n# {known.title}\n\n"
        "Read [SKILL.md](../../SKILL.md) in the plugin's own folder, two above this file's, and follow it. FOLDER in its\n"
        "commands is that folder, and its paths start there: `references/`, `tools/`.\n"
    )


FILES: dict[str, Callable[[Facts], dict[str, Any] | str]] = {
    "plugin.json": _agent_plugin,  # Agent Plugins 1.0.0: Codex, Cursor, VS Code and others
    "mcp.json": _agent_servers,
    "skills/cuda-graphs/SKILL.md": _leading_skill,
    ".claude-plugin/plugin.json": _claude,
    ".claude-plugin/marketplace.json": _claude_marketplace,
    ".agents/plugins/marketplace.json": _codex_marketplace,
    ".cursor-plugin/marketplace.json": _cursor_marketplace,
    "gemini-extension.json": _gemini,
    "server.json": _registry,  # the MCP registry
    ".mcpb/manifest.json": _bundle,
}
# The version stands in prose, too: the file, and the line before its number.
VERSIONS = {"SKILL.md": "  version: ", "card.yaml": "version: "}


def made(known: Facts) -> dict[str, str]:
    """Return the text of each manifest by its path."""
    contents = {path: make(known) for path, make in FILES.items()}
    return {
        path: content if isinstance(content, str) else json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        for path, content in contents.items()
    }


def wanted() -> dict[str, str]:
    """Return the text of each file that is written by its path: the manifests, and those that name the version."""
    known = facts()
    texts = made(known)
    for path, before in VERSIONS.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        texts[path] = re.sub(rf"^{before}.+$", f"{before}{known.version}", text, count=1, flags=re.MULTILINE)
    return texts


def differing() -> list[str]:
    """Return the files that are not as they would be written, and README.md where it lacks the registry's mark."""
    paths = [path for path, text in wanted().items() if not (ROOT / path).is_file() or (ROOT / path).read_text() != text]
    mark = f"<!-- mcp-name: {facts().registry} -->"  # the registry looks for it in the published description
    return paths if mark in (ROOT / "README.md").read_text(encoding="utf-8") else [*paths, "README.md"]


def bundle(folder: Path) -> None:
    """Put the manifest and the files of a bundle into a new folder."""
    folder.mkdir(parents=True)
    for name in _BUNDLED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copyfile(ROOT / name, folder / name)
    shutil.copyfile(ROOT / ".mcpb" / "manifest.json", folder / "manifest.json")


def main() -> int:
    """Write, check or bundle."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("write", "check", "bundle"))
    parser.add_argument("folder", nargs="?", type=Path)
    args = parser.parse_args()
    if args.action == "bundle":
        if args.folder is None or args.folder.exists():
            parser.error("`bundle` needs a folder that does not exist yet")
        bundle(args.folder)
        return 0
    if args.action == "write":
        for path, text in wanted().items():
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8")
    stale = differing()
    for path in stale:
        print(f"{path} is not as `python tests/manifests.py write` would have it")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
