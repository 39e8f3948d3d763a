"""`skill doctor`: what it says of an interpreter, a GPU, the index, and of what was installed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cudagraph_skill import cli
from cudagraph_skill.errors import SkillError
from cudagraph_skill.setup import doctor, environment, serving

ROOT = Path(__file__).resolve().parent.parent
CUDA: dict[str, Any] = {"python": "3.12.1", "packages": {"torch": "2.11.0+cu130"}, "cuda": "13.0", "sees": 1}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set an empty home folder and an empty PATH, with a project as the current folder."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "VIRTUAL_ENV"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "home"
    (path / "project").mkdir(parents=True)
    (path / "bin").mkdir()
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.setenv("PATH", str(path / "bin"))
    monkeypatch.setenv("CUDAGRAPH_SKILL_CACHE", str(path / "cache"))
    monkeypatch.chdir(path / "project")
    return path


def _program(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def _bare(home: Path) -> str:
    """Return a Python without any package, which answers at once."""
    return _program(home / "bin" / "python", f'exec "{sys.executable}" -S -E "$@"')


def _doctor(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, dict[str, str]]]:
    code = cli.main(["doctor", "--json", *arguments])
    data = json.loads(capsys.readouterr().out)
    assert set(data) == {"ok", "checks"}
    assert data["ok"] is (code == 0)
    for check in data["checks"]:
        assert set(check) == {"name", "state", "said", "fix"}
        assert (check["state"] == "wrong") is bool(check["fix"])
    return code, {check["name"]: check for check in data["checks"]}


def test_a_machine_without_gpu_or_torch_has_nothing_to_fix(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = set(home.rglob("*"))
    python = _bare(home)
    code, checks = _doctor("--python", python, capsys=capsys)
    assert code == 0
    assert checks["python"]["said"] == f"{sys.version.split()[0]} at {python}"
    assert {name: checks[name]["state"] for name in ("torch", "gpu", "cuda-bindings", "clients", "command")} == dict.fromkeys(
        ("torch", "gpu", "cuda-bindings", "clients", "command"), "none"
    )
    assert checks["index"]["said"] == f"built at the first question, in {home / 'cache'}"
    assert set(home.rglob("*")) == before | {Path(python)}  # nothing is written


def test_text_has_a_line_a_check_and_a_sum(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--python", _bare(home)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "nothing to fix"
    assert all(line.split()[0] in {"ok", "none"} for line in lines[:-1])


def test_an_interpreter_that_is_none_is_wrong(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for python in (_program(home / "bin" / "no", "echo no; exit 1"), str(home / "nowhere"), str(home)):
        code, checks = _doctor("--python", python, capsys=capsys)
        assert code == 1
        assert checks["python"]["state"] == "wrong"
        assert python in checks["python"]["said"]
        assert "gpu" in checks  # the other checks are made all the same


def test_an_interpreter_that_hangs_is_stopped(home: Path) -> None:
    with pytest.raises(SkillError, match=r"did not answer within 0\.2 s"):
        environment.facts(_program(home / "bin" / "slow", "exec /bin/sleep 60"), 0.2)


def test_what_an_interpreter_prints_besides_is_passed_over(home: Path) -> None:
    python = _program(home / "bin" / "loud", f'echo hello; exec "{sys.executable}" -S -E "$@"')
    assert environment.facts(python)["packages"] == {}


@pytest.mark.parametrize(
    ("changed", "devices", "state", "says"),
    [
        ({}, 1, "ok", "2.11.0+cu130, built for CUDA 13.0, sees 1 GPU"),
        ({}, 0, "ok", "built for CUDA 13.0"),
        ({"sees": 0}, 1, "wrong", "sees no GPU"),
        ({"cuda": ""}, 1, "wrong", "built for no CUDA, and this machine has a GPU"),
        ({"cuda": "", "sees": 0}, 0, "ok", "built for no CUDA"),
        ({"packages": {}}, 1, "wrong", "not installed for /x/python"),
        ({"packages": {}}, 0, "none", "not installed for /x/python"),
        ({"packages": {"torch": "2.3.1"}}, 0, "wrong", "needs 2.4"),
        ({"failed": "OSError: libcudart.so.13: cannot open"}, 0, "wrong", "cannot be imported: OSError: libcudart.so.13"),
    ],
)
def test_torch_is_compared_with_the_gpu(changed: dict[str, Any], devices: int, state: str, says: str) -> None:
    check = doctor._torch("/x/python", CUDA | changed, devices)
    assert (check.state, bool(check.fix)) == (state, state == "wrong")
    assert says in check.said


def test_an_old_python_is_wrong(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = json.dumps({"python": "3.9.1", "packages": {"megatron_core": "0.18.2"}})
    _, checks = _doctor("--python", _program(home / "bin" / "old", f"echo '{answer}'"), capsys=capsys)
    assert checks["python"]["said"].endswith("is Python 3.9.1")
    assert checks["megatron-core"] == {"name": "megatron-core", "state": "ok", "said": "0.18.2", "fix": ""}


def test_nvidia_smi_names_gpus_and_driver(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert environment.gpus() is None
    _program(home / "bin" / "nvidia-smi", 'echo "NVIDIA H100, PCIe, 580.159.04"; echo "NVIDIA H200, 580.159.04"')
    assert environment.gpus() == [("NVIDIA H100, PCIe", "580.159.04"), ("NVIDIA H200", "580.159.04")]
    code, checks = _doctor("--python", _bare(home), capsys=capsys)
    assert code == 1
    assert checks["torch"]["state"] == "wrong"  # a GPU, and no torch to use it
    _program(home / "bin" / "nvidia-smi", 'echo "NVIDIA-SMI has failed because it could not communicate"; exit 9')
    _, checks = _doctor("--python", _bare(home), capsys=capsys)
    assert "has failed because it could not communicate" in checks["gpu"]["said"]
    assert checks["gpu"]["state"] == "wrong"


def test_a_cache_that_cannot_be_written_is_wrong(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = _bare(home)
    (home / "cache").mkdir(mode=0o777)
    (home / "cache").chmod(0o777)
    _, checks = _doctor("--python", python, capsys=capsys)
    assert "others can write to it" in checks["index"]["said"]
    (home / "cache").chmod(0o555)
    _, checks = _doctor("--python", python, capsys=capsys)
    assert "it is write-protected" in checks["index"]["said"]
    monkeypatch.setenv("CUDAGRAPH_SKILL_CACHE", str(home / "bin" / "python" / "cache"))
    assert "a file is in its way" in _doctor("--python", python, capsys=capsys)[1]["index"]["said"]


def test_a_registered_server_is_ok_until_its_command_is_gone(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = _bare(home)
    assert cli.main(["install", "codex", "--yes"]) == 0
    assert cli.main(["install", "claude", "--scope", "project", "--yes"]) == 0
    capsys.readouterr()
    code, checks = _doctor("--python", python, capsys=capsys)
    assert code == 0
    assert checks["codex"]["said"].startswith(f"{home}/.codex/config.toml starts /")
    assert checks["claude"]["state"] == "ok"
    path = home / ".codex" / "config.toml"
    path.write_text(path.read_text().replace(serving.command()[0], "/gone/bin/skill"))
    code, checks = _doctor("--python", python, capsys=capsys)
    assert code == 1
    assert checks["codex"]["said"] == f"{path}: /gone/bin/skill is not there, or is no program"
    assert "`skill install codex --yes`" in checks["codex"]["fix"]
    path.write_text("[")
    _, checks = _doctor("--python", python, capsys=capsys)
    assert "cannot be read" in checks["codex"]["said"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([sys.executable, "-m", "cudagraph_skill", "serve"], ""),
        ([sys.executable, "/gone/server/serve.py"], "/gone/server/serve.py is not there"),
        (["/etc/passwd"], "/etc/passwd is not there, or is no program"),
        (["uvx", "--from", "cudagraph-skill"], ""),
    ],
)
def test_a_command_is_lost_where_one_of_its_paths_is(words: list[str], says: str) -> None:
    assert serving.lost(words) == says


def test_a_copy_of_the_skill_is_compared_with_this_package(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = _bare(home)
    assert cli.main(["install", "claude", "--as", "skill", "--yes"]) == 0
    capsys.readouterr()
    place = home / ".claude" / "skills" / "cuda-graphs"
    assert _doctor("--python", python, capsys=capsys)[1]["skill folder"]["state"] == "ok"
    (place / "tools" / "check.py").write_text("")
    (place / "references" / "rng.md").unlink()
    code, checks = _doctor("--python", python, capsys=capsys)
    assert code == 1
    assert "2 files are missing or not those of this package" in checks["skill folder"]["said"]
    card = place / "card.yaml"
    card.write_text(card.read_text().replace("\nversion: ", "\nversion: 0.0.", 1))
    _, checks = _doctor("--python", python, capsys=capsys)
    assert "is version 0.0." in checks["skill folder"]["said"]


def test_what_the_server_lacks_is_named_with_the_command_that_brings_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = _bare(home)
    assert _doctor("--python", python, capsys=capsys)[1]["server"]["state"] == "ok"
    monkeypatch.setitem(serving.NEEDS, "no_such_module", "mcp>=2.3,<3")
    _, checks = _doctor("--python", python, capsys=capsys)
    assert checks["server"]["state"] == "none"  # who only searches and checks needs no server
    assert "lacks mcp>=2.3,<3" in checks["server"]["said"]
    assert "pip install 'mcp>=2.3,<3'`" in checks["server"]["said"]


def test_the_skill_of_procps_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _program(home / "bin" / "skill", "exit 0")
    _, checks = _doctor("--python", _bare(home), capsys=capsys)
    assert checks["command"]["state"] == "none"
    assert f"another program, {path}: use `python -m cudagraph_skill`" in checks["command"]["said"]
    _program(home / "bin" / "cudagraph-skill", "# starts cudagraph_skill")
    _, checks = _doctor("--python", _bare(home), capsys=capsys)
    assert f"another program, {path}: use `cudagraph-skill`" in checks["command"]["said"]


@pytest.mark.slow
def test_our_own_process_never_imports_torch() -> None:
    code = "import sys; from cudagraph_skill.setup import doctor; doctor.checks(sys.argv[1]); print('torch' in sys.modules)"
    command = [sys.executable, "-c", code, sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT / "tools")
    assert done.stdout == "False\n"
