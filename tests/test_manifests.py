"""Manifests of clients and registries say what the project says, and say it once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import manifests
import pytest
from cudagraph_skill.setup import folder

ROOT = Path(__file__).resolve().parent.parent


def _json(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def test_each_file_is_as_it_would_be_written() -> None:
    assert manifests.differing() == []


def test_a_new_version_reaches_every_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("pyproject.toml", "README.md", "SKILL.md", "card.yaml", "tools/cudagraph_skill/__init__.py", *manifests.FILES):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(manifests, "ROOT", tmp_path)
    assert manifests.differing() == []
    place = tmp_path / "tools" / "cudagraph_skill" / "__init__.py"
    place.write_text(re.sub(r'__version__ = ".*"', '__version__ = "98.7.6"', place.read_text()))
    named = {path for path, text in manifests.wanted().items() if "98.7.6" in text}
    assert set(manifests.differing()) == named
    versioned = ("plugin.json", ".claude-plugin/plugin.json", "gemini-extension.json", "server.json", ".mcpb/manifest.json")
    assert named == {*versioned, "SKILL.md", "card.yaml"}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="git says which files are ours: this is no clone")
def test_no_other_file_repeats_the_version() -> None:
    version = re.escape(manifests.facts().version)
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    known = {*manifests.FILES, *manifests.VERSIONS, "CHANGELOG.md", "tools/cudagraph_skill/__init__.py"}
    repeats = [
        name
        for name in names
        if name.endswith((".json", ".toml", ".yaml", ".md", ".py"))
        and name not in known
        and "evidence" not in name
        and re.search(
            rf"(?i)\b(?:__)?version(?:__)?\"?\s*[:=]\s*\"?{version}\b",
            (ROOT / name).read_text(encoding="utf-8", errors="replace"),
        )
    ]
    assert repeats == []


def test_descriptions_fit_their_shelves() -> None:
    known = manifests.facts()
    assert len(known.summary) <= 100  # the registry's limit
    assert re.fullmatch(r"[a-z0-9.-]+/[a-z0-9._-]+", known.registry)
    assert known.registry.endswith(f"/{known.name}")


@pytest.mark.parametrize("path", [".claude-plugin/plugin.json", "gemini-extension.json", "mcp.json", ".mcpb/manifest.json"])
def test_a_manifest_starts_the_server_by_the_name_that_procps_does_not_have(path: str) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    data = _json(path)
    server = data["server"]["mcp_config"] if "server" in data else data["mcpServers"]["cuda-graphs"]
    assert server["args"][-2:] == ["cudagraph-skill", "serve"]
    assert "cudagraph-skill" in scripts
    assert "mcp" in " ".join(server["args"][:-2])  # with the server's packages


def test_local_sources_of_marketplaces_are_this_repository() -> None:
    for path in (".claude-plugin/marketplace.json", ".cursor-plugin/marketplace.json", ".agents/plugins/marketplace.json"):
        (entry,) = _json(path)["plugins"]
        source = entry["source"]
        assert (source if isinstance(source, str) else source["path"]) == "./", path


def test_the_leading_skill_leads_to_the_skill() -> None:
    path = ROOT / "skills" / "cuda-graphs" / "SKILL.md"
    (target,) = re.findall(r"\]\((.+?)\)", path.read_text())
    assert (path.parent / target).resolve() == ROOT / "SKILL.md"


def test_a_bundle_has_what_a_wheel_is_built_of(tmp_path: Path) -> None:
    manifests.bundle(tmp_path / "bundle")
    names = {path.relative_to(tmp_path / "bundle").as_posix() for path in (tmp_path / "bundle").rglob("*") if path.is_file()}
    assert {"manifest.json", "pyproject.toml", "README.md", "SKILL.md", "server/serve.py", "questions/rng.txt"} <= names
    assert not [name for name in names if name.startswith(("tests", "benchmarks")) or "__pycache__" in name]


@pytest.mark.slow
def test_the_second_linter_has_no_warning_about_a_copy(tmp_path: Path) -> None:
    """It reads links, budgets, unreferenced files and manifests; `.ci/run` has it read the repository itself."""
    copy = tmp_path / "cuda-graphs"
    for name, path in folder.own_files().items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(path.read_bytes())
    command = [str(Path(sys.executable).with_name("skillsaw")), "lint", "--config", str(ROOT / ".skillsaw.yaml")]
    command += ["--fail-on", "warning", "--no-plugins", str(copy)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "All checks passed" in done.stdout
    (copy / "references" / "memory.md").unlink()
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1  # links to it are broken
