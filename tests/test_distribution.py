"""What people install works alone: the wheel with few packages, its extras, uvx and pipx; and a release can be built again."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
import venv
from pathlib import Path

import pytest
import release

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NEEDED = {"cudagraph-skill", "jinja2", "markdown-it-py", "pyyaml", "whoosh"}
THEIRS = {"markupsafe", "mdurl"}  # of jinja2, of markdown-it-py


def test_the_base_is_four_packages_and_the_server_an_extra() -> None:
    assert {re.split(r"[<>=]", each)[0] for each in PROJECT["dependencies"]} == NEEDED - {"cudagraph-skill"}
    extras = PROJECT["optional-dependencies"]
    assert [re.split(r"[<>=]", each)[0] for each in (*extras["mcp"], *extras["completion"])] == ["mcp", "shtab"]
    assert PROJECT["scripts"]["skill"].split() == PROJECT["scripts"]["cudagraph-skill"].split()


def _run(folder: Path, program: str, *arguments: str, code: int = 0, stdin: str = "", **more: str) -> str:
    """Run a program of a folder, away from the checkout, and return what it said."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "UV")}
    environment |= {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder.parent), "UV_SYSTEM_CERTS": "1", **more}
    command = [str(folder / program), *arguments]
    done = subprocess.run(command, cwd="/", env=environment, input=stdin, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


needs_git = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="a release is built of a commit: this is no clone")


def _environment(folder: Path) -> tuple[Path, Path]:
    """Return the programs of a new environment, and a clone of the last commit to install from."""
    venv.create(folder / "env", with_pip=True, symlinks=True)
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder / "a clone")], check=True)
    return folder / "env" / "bin", folder / "a clone"


@needs_git
@pytest.mark.slow
def test_two_builds_of_a_commit_are_the_same_bytes(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        first = release.build(tmp_path / "first")
        os.umask(0o077)
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(tmp_path / "clone")], check=True)
        again = release.build(tmp_path / "again", tmp_path / "clone")
    finally:
        os.umask(before)
    assert again == first
    assert sorted(Path(name).suffix for name in again) == [".gz", ".whl"]


@needs_git
@pytest.mark.slow
def test_the_base_install_has_few_packages_and_does_the_main_job(tmp_path: Path) -> None:
    fresh, clone = _environment(tmp_path)
    _run(fresh, "python", "-m", "pip", "install", "--quiet", str(clone))
    listed = _run(fresh, "python", "-m", "pip", "list", "--format", "freeze").lower().splitlines()
    assert {line.partition("==")[0].partition(" @")[0] for line in listed} - {"pip", "setuptools"} == NEEDED | THEIRS
    program = tmp_path / "step.py"
    program.write_text("def step(x):\n    return x / x.max().item()\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "notes.md").write_text("---\ntitle: Zebra\n---\n\nZebras\n======\n\nNever captured on Tuesdays.\n")
    assert "references/rng.md" in _run(fresh, "skill", "search", "dropout gives the same mask every replay")
    assert "Zebras" in _run(fresh, "skill", "search", "zebras captured on Tuesdays", "--corpus", str(tmp_path / "own"))
    assert "PyTorch" in _run(fresh, "skill", "read", "SKILL.md#requirements")
    assert "unjoined-side-stream" in _run(fresh, "skill", "errors", "CUDA error: capturing stream has unjoined work")
    assert "cudaErrorStreamCaptureImplicit" in _run(fresh, "cudagraph-skill", "explain", "906")
    assert "CG201" in _run(fresh, "skill", "check", f"{program}:step", code=1)
    assert "def " in _run(fresh, "skill", "scaffold", "manual", "--training", "--for", "torch==2.13")
    for command, needed in (("serve", "mcp>=2.3,<3"), ("install claude", "mcp>=2.3,<3"), ("completion bash", "shtab>=1.7,<2")):
        said = _run(fresh, "skill", *command.split(), code=3)
        assert f"`{fresh}/python -m pip install '{needed}'`" in said
    _run(fresh, "python", "-m", "pip", "install", "--quiet", needed)
    assert "_skill" in _run(fresh, "skill", "completion", "bash")


@needs_git
@pytest.mark.slow
def test_uvx_and_pipx_run_it(tmp_path: Path) -> None:
    programs, clone = _environment(tmp_path)
    _run(programs, "python", "-m", "pip", "install", "--quiet", "uv", "pipx")
    said = _run(programs, "uvx", "--from", str(clone), "skill", "search", "share a memory pool", "--limit", "1")
    assert f"next: uvx --from '{clone}' cudagraph-skill search " in said
    assert "Warning" not in said
    _run(programs, "uvx", "--from", f"{clone}[mcp]", "cudagraph-skill", "serve")
    _run(programs, "pipx", "install", str(clone))
    place = tmp_path / "env" / ".local" / "bin"
    assert "references/" in _run(place, "cudagraph-skill", "search", "share a memory pool", "--limit", "1")
    said = _run(place, "cudagraph-skill", "serve", code=3)
    assert "`pipx inject cudagraph-skill 'mcp>=2.3,<3'`" in said
    _run(programs, "pipx", "inject", "cudagraph-skill", "mcp>=2.3,<3")
    _run(place, "cudagraph-skill", "serve")
