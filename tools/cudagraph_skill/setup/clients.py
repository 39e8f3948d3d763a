"""Where each client keeps its configuration and its skills."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME = "cuda-graphs"  # of the server, and of the skill's folder


class Client(NamedTuple):
    """Hold what is known of one client; paths begin with a place of `places`, those of a project in its folder.

    Attributes:
        title: Its name in sentences.
        user: The configuration of the user.
        project: That of a project, or "" where it has none.
        format: "json", "commented" (JSON with comments), "jsonc" (with trailing commas, too) or "toml".
        key: The table of servers in it.
        fixed: What an entry has besides its command.
        skills: The folder of the user's skills, or "".
        project_skills: That of a project, or "".
        seen: How to see that the client has it.
        trust: What the client asks before it uses a project's configuration.
    """

    title: str
    user: str
    project: str
    format: str
    key: str
    fixed: Mapping[str, object]
    skills: str
    project_skills: str
    seen: str
    trust: str = ""


_STDIO = {"type": "stdio"}
CLIENTS: dict[str, Client] = {
    "claude": Client(
        "Claude Code", "{claude_json}", ".mcp.json", "json", "mcpServers", _STDIO, "{claude}/skills", ".claude/skills",
        "`claude mcp list` shows it", "Claude Code asks before it starts a server of a project",
    ),
    "codex": Client(
        "Codex", "{codex}/config.toml", ".codex/config.toml", "toml", "mcp_servers", {}, "{home}/.agents/skills",
        ".agents/skills", "`codex mcp list` shows it", "Codex reads it in trusted projects only",
    ),
    "cursor": Client(
        "Cursor", "{home}/.cursor/mcp.json", ".cursor/mcp.json", "jsonc", "mcpServers", {}, "{home}/.cursor/skills",
        ".cursor/skills", "Cursor Settings > MCP shows it", "Cursor asks before it starts a server of a project",
    ),
    "vscode": Client(
        "VS Code", "{apps}/Code/User/mcp.json", ".vscode/mcp.json", "jsonc", "servers", _STDIO, "{home}/.copilot/skills",
        ".github/skills", "`MCP: List Servers` in the command palette shows it", "VS Code asks before it starts the server",
    ),
    "gemini": Client(
        "Gemini CLI", "{gemini}/.gemini/settings.json", ".gemini/settings.json", "commented", "mcpServers", {},
        "{gemini}/.gemini/skills", ".gemini/skills", "`gemini mcp list` shows it",
        "Gemini CLI reads it in trusted folders only",
    ),
    "windsurf": Client(
        "Windsurf", "{home}/.codeium/windsurf/mcp_config.json", "", "json", "mcpServers", {}, "{home}/.codeium/windsurf/skills",
        ".windsurf/skills", "the MCP list of Cascade shows it after a refresh",
    ),
    "zed": Client(
        "Zed", "{config}/zed/settings.json", ".zed/settings.json", "jsonc", "context_servers", {"env": {}},
        "{home}/.agents/skills", ".agents/skills", "the settings of its Agent Panel show it",
        "Zed reads it in trusted projects only",
    ),
    "claude-desktop": Client(
        "Claude Desktop", "{apps}/Claude/claude_desktop_config.json", "", "json", "mcpServers", {}, "", "",
        "Settings > Developer shows it after a restart",
    ),
}  # fmt: skip


def places() -> dict[str, str]:
    """Return the folders that paths of the table begin with, by the clients' own variables.

    Raises:
        SkillError: The user has no home folder (exit code 3).
    """
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home() raises RuntimeError where this returns "~"
    if not home.startswith("/"):
        raise SkillError("the user has no home folder: set HOME, or use `--scope project`", 3)
    variable = os.environ.get
    config = variable("XDG_CONFIG_HOME", "")
    config = config if config.startswith("/") else f"{home}/.config"
    claude = variable("CLAUDE_CONFIG_DIR")
    return {
        "home": home,
        "config": config,
        "apps": f"{home}/Library/Application Support" if sys.platform == "darwin" else config,
        "claude": claude or f"{home}/.claude",
        "claude_json": f"{claude or home}/.claude.json",
        "codex": variable("CODEX_HOME") or f"{home}/.codex",
        "gemini": variable("GEMINI_CLI_HOME") or home,
    }


def configuration(client: Client, project: Path | None) -> Path:
    """Return the configuration of a client: the user's, or that of a project.

    Raises:
        SkillError: It has none for a project.
    """
    if project is None:
        return Path(client.user.format_map(places()))
    if not client.project:
        raise SkillError(f"{client.title} has no configuration for a project: leave out `--scope project`")
    return project / client.project


def skills(client: Client, project: Path | None) -> Path:
    """Return the folder of the skill for a client, which need not exist.

    Raises:
        SkillError: It reads no skills.
    """
    where = client.skills if project is None else client.project_skills
    if not where:
        raise SkillError(f"{client.title} reads no skills from a folder: register the server, `--as server`")
    folder = Path(where.format_map(places())) if project is None else project / where
    return folder / NAME
