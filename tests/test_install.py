"""`skill install`: what each client's configuration gets, what stays, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from cudagraph_skill import cli
from cudagraph_skill.errors import SkillError
from cudagraph_skill.setup import entry, extras, folder, jsonc, registration, serving
from cudagraph_skill.setup.clients import CLIENTS, NAME
from cudagraph_skill.setup.entry import Table
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parent.parent
VARIABLES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME")
# Where each client keeps the user's servers on Linux, as its documentation says; the first three were asked (see CONTRIBUTING).
USER = {
    "claude": ".claude.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "zed": ".config/zed/settings.json",
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
}
PROJECT = {
    "claude": ".mcp.json",
    "codex": ".codex/config.toml",
    "gemini": ".gemini/settings.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".vscode/mcp.json",
    "zed": ".zed/settings.json",
}
KEYS = {"vscode": "servers", "zed": "context_servers", "codex": "mcp_servers"}
EXTRA: dict[str, dict[str, Any]] = {"claude": {"type": "stdio"}, "vscode": {"type": "stdio"}, "zed": {"env": {}}}
STRICT = (
    '{"theme": "dark", "mcpServers": {}}',
    '{\n  "mcpServers": {\n    "other": {"command": "x", "env": {"TOKEN": "secret"}}\n  },\n  "n": 1.50\n}',
    '{\r\n\t"mcpServers": {\r\n\t},\r\n\t"a": [1,  2]\r\n}\r\n',
    '\ufeff{\n    "a": "\\u00e9"\n}\n',
    '{\n  "mcpServers": {}\n}',
    "{}",
    " \n",
    "",
)
COMMENTED = (
    '// mine\n{\n  // theme\n  "theme": "a", // keep\n}\n',
    '{\n  "SERVERS": {\n    // none yet\n  }, /* end */\n  "x": {}\n}\n',
    '{\n  "SERVERS": {\n    "other": {"command": "x"} // the last\n    // after it\n  }\n}\n',
    '{"SERVERS": {"other": {"command": "x"},}, "a": "// no comment, }"}',
)
TOML = (
    '# mine\nmodel = "o3"\n\n[mcp_servers.other]\ncommand = "x"  # keep',
    'model = "o3"\r\n[tui]\r\ntheme = "a"\r\n',
    '[mcp_servers]\n[mcp_servers.other]\ncommand = "x"\n\n',
    "",
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set an empty home folder, and a project in it as the current one."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "home"
    (path / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(path))
    monkeypatch.chdir(path / "project")
    return path


def _skill(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def _put(path: Path, text: str) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return text.encode()


def _tree(path: Path) -> dict[str, bytes]:
    """Return every file and folder below a path, but not the receipts."""
    found = (each for each in path.rglob("*") if ".local" not in each.parts)
    return {str(each): each.read_bytes() if each.is_file() else b"" for each in found}


def _entry(client: str) -> dict[str, Any]:
    program, *arguments = serving.command()
    return {"command": program, "args": arguments, **EXTRA.get(client, {})}


def _loaded(client: str, text: str) -> Any:
    return tomllib.loads(text) if client == "codex" else jsonc.read(text.removeprefix("\ufeff")).content


def test_the_table_is_what_the_tests_know() -> None:
    assert set(CLIENTS) == set(USER)
    assert {name for name, client in CLIENTS.items() if client.project} == set(PROJECT)


@pytest.mark.parametrize("scope", ["user", "project"])
@pytest.mark.parametrize("client", USER)
def test_a_new_configuration_has_the_clients_shape_and_goes_again(
    client: str, scope: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--scope", scope, "--yes")
    if scope == "project" and client not in PROJECT:
        code, _, err = _skill("install", client, *options, capsys=capsys)
        assert code == 2
        assert "has no configuration for a project" in err
        return
    before = _tree(home)
    path = home / USER[client] if scope == "user" else home / "project" / PROJECT[client]
    code, out, err = _skill("install", client, *options, capsys=capsys)
    assert code == 0
    assert f"+++ {path}" in out
    assert "undo: " in err
    assert _loaded(client, path.read_text()) == {KEYS.get(client, "mcpServers"): {NAME: _entry(client)}}
    code, out, _ = _skill("install", client, *options, capsys=capsys)
    assert (code, out) == (0, f"{path} has the server already\n")
    assert _skill("install", client, *options, "--undo", capsys=capsys)[0] == 0
    assert _tree(home) == before
    code, out, _ = _skill("install", client, *options, "--undo", capsys=capsys)
    assert code == 0
    assert "nothing to undo" in out


def _cases() -> list[tuple[str, str]]:
    cases = [(client, text.replace("mcpServers", KEYS.get(client, "mcpServers"))) for client in USER for text in STRICT]
    cases = [(client, text) for client, text in cases if client != "codex"] + [("codex", text) for text in TOML]
    commented = [
        (client, text.replace("SERVERS", CLIENTS[client].key)) for client in ("cursor", "vscode", "zed") for text in COMMENTED
    ]
    return cases + commented + [("gemini", COMMENTED[2].replace("SERVERS", "mcpServers"))]


@pytest.mark.parametrize(("client", "text"), _cases())
def test_every_other_byte_stays_and_undo_restores_the_file(
    client: str, text: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / USER[client]
    before = _put(path, text)
    path.chmod(0o600)
    assert _skill("install", client, "--yes", capsys=capsys)[0] == 0
    after = path.read_bytes()
    old = _loaded(client, text) if text.strip() else {}
    key = KEYS.get(client, "mcpServers")
    assert _loaded(client, after.decode()) == {**old, key: {**old.get(key, {}), NAME: _entry(client)}}
    assert path.stat().st_mode & 0o777 == 0o600
    if b"\r\n" in before:
        assert after.count(b"\n") == after.count(b"\r\n")
    rest = iter(after)
    assert all(byte in rest for byte in before)  # what stood there stands there in its order
    assert _skill("install", client, "--undo", "--yes", capsys=capsys)[0] == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize("what", ["server", "skill"])
@pytest.mark.parametrize("client", ["claude", "codex", "vscode"])
def test_nothing_is_written_without_yes(client: str, what: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {str(path) for path in home.rglob("*")}
    code, out, err = _skill("install", client, "--as", what, capsys=capsys)
    assert code == 0
    assert out
    assert "nothing is written yet; next: " in err
    assert err.endswith(" --yes\n")
    assert {str(path) for path in home.rglob("*")} == before


@pytest.mark.parametrize("long", ["x", "x" * 300])
def test_a_diff_shows_no_secret_of_other_servers(long: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _put(home / ".claude.json", json.dumps({"mcpServers": {"a": {"env": {"API_TOKEN": "s3cret"}}, "b": {"command": long}}}))
    _, out, _ = _skill("install", "claude", capsys=capsys)
    assert "s3cret" not in out
    assert f'"{NAME}": {{"type": "stdio", "command": ' in out


OTHER = {"command": "elsewhere", "args": []}
BROKEN = {
    "broken": ("claude", '{"mcpServers": {'),
    "a comment in strict JSON": ("claude", '{ // mine\n "a": 1}'),
    "a trailing comma": ("gemini", '{"a": 1,}'),
    "a list": ("cursor", "[]"),
    "a table that is none": ("vscode", '{"servers": []}'),
    "twice": ("zed", '{"context_servers": {}, "context_servers": {}}'),
    "deep": ("zed", "[" * 5000),
    "other content": ("claude", json.dumps({"mcpServers": {NAME: OTHER}}, indent=2)),
    "other content in TOML": ("codex", f'[mcp_servers.{NAME}]\ncommand = "elsewhere"\n'),
    "broken TOML": ("codex", "model = \n"),
    "an inline table": ("codex", 'mcp_servers = {other = {command = "x"}}\n'),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_cannot_be_changed_safely_stays_and_the_entry_is_said(
    kind: str, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client, text = BROKEN[kind]
    path = home / USER[client]
    before = _put(path, text)
    for options in ((), ("--yes",)):
        code, out, err = _skill("install", client, *options, capsys=capsys)
        assert (code, out) == (1, "")
        sentence, _, snippet = err.partition(":\n")
        assert str(path) in sentence
        assert sentence.count("\n") == 0
        assert _loaded(client, snippet) == {KEYS.get(client, "mcpServers"): {NAME: _entry(client)}}
        assert path.read_bytes() == before


def test_bytes_that_are_no_text_are_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".claude.json").write_bytes(b"\xff{}")
    code, _, err = _skill("install", "claude", "--yes", capsys=capsys)
    assert code == 1
    assert "it is not UTF-8" in err
    assert (home / ".claude.json").read_bytes() == b"\xff{}"


def test_a_link_a_hard_link_a_folder_and_a_file_in_the_way_are_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "dotfiles.json").write_text("{}")
    path = home / ".claude.json"
    path.symlink_to(home / "dotfiles.json")
    code, _, err = _skill("install", "claude", "--yes", capsys=capsys)
    assert code == 1
    assert f"it is a link to {home}/dotfiles.json" in err
    path.unlink()
    os.link(home / "dotfiles.json", path)
    assert "a hard link" in _skill("install", "claude", "--yes", capsys=capsys)[2]
    path.unlink()
    path.mkdir()
    assert "it is no file" in _skill("install", "claude", "--yes", capsys=capsys)[2]
    (home / ".cursor").write_text("")
    assert "is no folder" in _skill("install", "cursor", "--yes", capsys=capsys)[2]
    assert (home / "dotfiles.json").read_text() == "{}"


@pytest.mark.parametrize("protected", ["the file", "the folder"])
def test_what_is_write_protected_is_exit_3(protected: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".cursor" / "mcp.json"
    before = _put(path, "{}")
    place = path if protected == "the file" else path.parent
    place.chmod(0o444 if place == path else 0o555)
    code, _, err = _skill("install", "cursor", "--yes", capsys=capsys)
    place.chmod(0o755)
    assert code == 3
    assert f"{path} stays as it is, {'it' if place == path else place} is write-protected" in err
    assert path.read_bytes() == before


def test_undo_leaves_an_entry_that_was_changed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for client, old, new in (("claude", '"stdio"', '"sse"'), ("codex", '"serve"', '"serve", "--allow"')):
        path = home / USER[client]
        assert _skill("install", client, "--yes", capsys=capsys)[0] == 0
        path.write_text(path.read_text().replace(old, new))
        before = path.read_bytes()
        code, _, err = _skill("install", client, "--undo", "--yes", capsys=capsys)
        assert code == 1
        assert err.count("\n") == 1
        assert "was changed since, so it stays" in err
        assert path.read_bytes() == before


def test_undo_leaves_an_entry_of_somebody_else(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _put(home / ".claude.json", json.dumps({"mcpServers": {NAME: OTHER}}))
    code, _, err = _skill("install", "claude", "--undo", "--yes", capsys=capsys)
    assert code == 1
    assert "was not written by `skill install`" in err.replace("python -m cudagraph_skill", "skill")
    assert (home / ".claude.json").read_bytes() == before


@pytest.mark.parametrize("receipt", [True, False])
def test_undo_takes_out_only_its_own_where_the_client_wrote_the_file_anew(
    receipt: bool, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".claude.json"
    _put(path, '{"a": 1}')
    assert _skill("install", "claude", "--yes", capsys=capsys)[0] == 0
    data = json.loads(path.read_text())
    data["mcpServers"]["later"] = {"command": "y"}
    path.write_text(json.dumps(data | {"numStartups": 2}, indent=4))
    if not receipt:
        for kept in (home / ".local" / "state" / "cudagraph-skill").iterdir():
            kept.unlink()
    assert _skill("install", "claude", "--undo", "--yes", capsys=capsys)[0] == 0
    del data["mcpServers"][NAME]
    assert path.read_text() == json.dumps(data | {"numStartups": 2}, indent=4)


def test_undo_of_toml_keeps_what_came_after(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".codex" / "config.toml"
    _put(path, 'model = "a"\n')
    assert _skill("install", "codex", "--yes", capsys=capsys)[0] == 0
    path.write_text("# first\n" + path.read_text() + '\n[tui]\ntheme = "b"\n')
    assert _skill("install", "codex", "--undo", "--yes", capsys=capsys)[0] == 0
    assert path.read_text() == '# first\nmodel = "a"\n\n[tui]\ntheme = "b"\n'


def test_an_entry_of_an_earlier_call_is_replaced(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = home / ".cursor" / "mcp.json"
    before = _put(path, '{\n  // mine\n  "mcpServers": {}\n}\n')
    assert _skill("install", "cursor", "--yes", capsys=capsys)[0] == 0
    assert _skill("install", "cursor", "--yes", "--allow", ".", "--python", sys.executable, capsys=capsys)[0] == 0
    arguments = _loaded("cursor", path.read_text())["mcpServers"][NAME]["args"]
    assert arguments[-4:] == ["--allow", str(home / "project"), "--python", sys.executable]
    assert _skill("install", "cursor", "--undo", "--yes", capsys=capsys)[0] == 0
    assert path.read_bytes() == before


def test_a_file_that_changes_meanwhile_stays(home: Path) -> None:
    path = home / ".claude.json"
    _put(path, "{}")
    change = registration.registered(CLIENTS["claude"], path, _entry("claude"))
    path.write_text('{"a": 1}')
    with pytest.raises(SkillError, match="changed while it was read") as refused:
        registration.write(change)
    assert refused.value.exit_code == 1
    assert path.read_text() == '{"a": 1}'


def test_clients_own_variables_are_heeded(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = {
        "claude": ("CLAUDE_CONFIG_DIR", ".claude.json"),
        "codex": ("CODEX_HOME", "config.toml"),
        "gemini": ("GEMINI_CLI_HOME", ".gemini/settings.json"),
        "zed": ("XDG_CONFIG_HOME", "zed/settings.json"),
    }
    for client, (variable, file) in expected.items():
        monkeypatch.setenv(variable, str(tmp_path / client))
        assert _skill("install", client, "--yes", capsys=capsys)[0] == 0
        assert (tmp_path / client / file).is_file()
    assert {path.name for path in home.iterdir()} == {".local", "project"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["install", "emacs"], "invalid choice"),
        (["install", "claude", "--folder", "."], "add `--scope project`"),
        (["install", "claude", "--scope", "project", "--folder", "/nowhere"], "is no folder"),
        (["install", "claude", "--allow", "/nowhere"], "names no folder"),
        (["install", "claude", "--as", "skill", "--allow", "."], "are for the server"),
        (["install", "claude-desktop", "--as", "skill"], "reads no skills"),
        (["doctor", "--folder", "/nowhere"], "is no folder"),
    ],
)
@pytest.mark.usefixtures("home")
def test_misuse_is_one_sentence_and_exit_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill(*arguments, capsys=capsys)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1


@pytest.mark.usefixtures("home")
def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    for options, done in (((), "shown"), (("--yes",), "written"), ((), "nothing")):
        _, out, _ = _skill("install", "codex", "--json", *options, capsys=capsys)
        data = json.loads(out)
        assert set(data) == {"client", "path", "done", "change"}
        assert data["done"] == done


def test_without_a_client_they_are_listed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("install", capsys=capsys)
    assert code == 0
    for client, path in USER.items():
        assert f"{client} " in out
        assert str(home / path) in out


@pytest.mark.slow
def test_the_command_that_is_registered_serves() -> None:
    done = subprocess.run(serving.command(), input=b"", capture_output=True, timeout=60, check=False, cwd="/")
    assert (done.returncode, done.stdout) == (0, b"")


def test_what_the_server_needs_is_what_the_project_declares() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(serving.NEEDS.values()) == {*project["dependencies"], *project["optional-dependencies"]["mcp"]}


@pytest.mark.parametrize(
    ("prefix", "pip", "command"),
    [
        ("/env", True, f"{sys.executable} -m pip install 'mcp>=2.3,<3'"),
        ("/env", False, f"uv pip install --python {sys.executable} 'mcp>=2.3,<3'"),
        ("/home/u/pipx/venvs/cudagraph-skill", True, "pipx inject cudagraph-skill 'mcp>=2.3,<3'"),
    ],
)
def test_what_is_lacking_is_named_for_the_installer_that_is_here(
    prefix: str, pip: bool, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", prefix)
    monkeypatch.setattr(extras, "find_spec", lambda _: pip or None)
    monkeypatch.setattr("shutil.which", lambda _: None if pip else "/usr/bin/uv")
    assert extras.installing(["mcp>=2.3,<3"]) == command


# Any JSON in any style ------------------------------------------------------------------------------------------------

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=5), each, max_size=3),
    max_leaves=8,
)
_SERVERS = st.none() | st.dictionaries(st.sampled_from(["a", "b", "// c"]), st.just({"command": "x"}), max_size=2)
TABLE = Table("jsonc", "servers", NAME)


@given(
    rest=st.dictionaries(st.text(max_size=5), _JSON, max_size=3),
    servers=_SERVERS,
    first=st.booleans(),
    indent=st.sampled_from([None, 0, 2, 4, "\t"]),
    newline=st.sampled_from(["\n", "\r\n"]),
    comment=st.sampled_from(["", " // c", " /* } */"]),
)
def test_an_entry_goes_in_and_out_of_any_json(  # noqa: PLR0913, PLR0917 - hypothesis gives each its own argument
    rest: dict[str, Any], servers: dict[str, Any] | None, first: bool, indent: int | str | None, newline: str, comment: str
) -> None:
    rest.pop("servers", None)
    own = {} if servers is None else {"servers": servers}
    content = {**own, **rest} if first else {**rest, **own}
    text = json.dumps(content, indent=indent)
    if comment and indent is not None:
        text = "\n".join(f"{line}{comment}" for line in text.split("\n")) + "\n"
    text = text.replace("\n", newline)
    new = {"command": "/bin/x", "args": ["serve"]}
    made = entry.pieces(text, TABLE, new)
    after = entry.inserted(text, made)
    assert jsonc.read(after).content == {**content, "servers": {**(servers or {}), NAME: new}}
    assert entry.taken_out(after, made) == text
    assert entry.parsed(entry.without(after, TABLE, ()), "jsonc") == {**content, "servers": servers or {}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"a"}',
        '{"a": }',
        '{"a": 1 "b": 2}',
        "{,}",
        "[1 2]",
        "{} x",
        '{"a": tru}',
        '"\n"',
        "/* open",
        "01",
        "[,]",
        "{1: 2}",
    ],
)
def test_what_is_no_json_is_said_with_its_line(text: str) -> None:
    with pytest.raises(jsonc.BrokenError, match=r"^line \d+: "):
        jsonc.read(text)


@given(_JSON, st.sampled_from([None, 1]))
def test_plain_json_is_read_as_python_reads_it(content: object, indent: int | None) -> None:
    assert jsonc.read(json.dumps(content, indent=indent)).content == content


# The skill's folder ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the skill into a project of its own."""
    project = tmp_path_factory.mktemp("project")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(project))
        patch.delenv("XDG_STATE_HOME", raising=False)
        options = ("--as", "skill", "--scope", "project", "--folder", str(project), "--yes")
        assert cli.main(["install", "claude", *options]) == 0
    return project / ".claude" / "skills" / NAME


def test_the_folder_has_the_skills_files_and_nothing_else(installed: Path) -> None:
    assert {path.name for path in installed.iterdir()} == {
        "SKILL.md",
        "LICENSE",
        "card.yaml",
        "references",
        "questions",
        "tools",
    }
    for name in ("SKILL.md", "LICENSE", "references/hazards.md", "tools/check.py"):
        assert (installed / name).read_bytes() == (ROOT / name).read_bytes()
    package = {path.relative_to(ROOT) for path in (ROOT / "tools").rglob("*") if path.suffix in {".py", ".jinja"}}
    assert {path for path in package if not (installed / path).is_file()} == set()
    suffixes = {path.suffix for path in installed.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert suffixes == {"", ".md", ".yaml", ".txt", ".py", ".jinja", ".typed"}


@pytest.mark.slow
def test_the_folder_passes_the_skill_validator(installed: Path) -> None:
    program = Path(sys.executable).with_name("agentskills")
    done = subprocess.run([program, "validate", installed], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def _launched(installed: Path, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a launcher of the folder with a Python that has nothing installed."""
    command = [sys.executable, "-S", "-E", "-B", str(installed / "tools" / f"{name}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")


@pytest.mark.slow
def test_its_launchers_run_with_nothing_installed(installed: Path) -> None:
    for path in (installed / "tools").glob("[!_]*.py"):
        done = _launched(installed, path.stem, "--help")
        assert (done.returncode, done.stderr) == (0, ""), path
    program = ROOT / "tests" / "hazards" / "cg201_device_value_read.py"
    assert "CG201" in _launched(installed, "check", "--all", str(program)).stdout
    assert "legacy stream" in _launched(installed, "explain", "906").stdout
    assert f"next: python {installed}/tools/" in _launched(installed, "recommend", "--training").stdout
    done = _launched(installed, "install", "codex")
    assert (done.returncode, done.stdout) == (3, "")
    assert "pip install 'mcp>=2.3,<3'" in done.stderr
    done = _launched(installed, "search", "share a memory pool", "--limit", "1")
    assert (done.returncode, done.stdout[:11]) == (0, "references/")


@pytest.mark.slow
def test_a_copy_of_the_files_names_no_server_that_it_does_not_have(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(os.path.realpath(sys.executable))  # without a `skill` beside it
    site = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    command = [str(tmp_path / "python"), "-S", str(installed / "tools" / "install.py"), "claude"]
    environment = {**os.environ, "PYTHONPATH": site, "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (3, "")
    assert "has no server" in done.stderr


def test_a_copy_is_left_alone_removed_or_kept_where_it_was_changed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = _tree(home)
    options = ("--as", "skill", "--yes")
    place = home / ".cursor" / "skills" / NAME
    assert _skill("install", "cursor", *options, capsys=capsys)[0] == 0
    assert "has these files already" in _skill("install", "cursor", *options, capsys=capsys)[1]
    (place / "tools" / "__pycache__").mkdir()
    (place / "notes.md").write_text("mine")
    for extra in ((), ("--undo",)):
        code, _, err = _skill("install", "cursor", *options, *extra, capsys=capsys)
        assert code == 1
        assert "notes.md differs" in err
    assert (place / "notes.md").read_text() == "mine"
    (place / "notes.md").unlink()
    assert _skill("install", "cursor", *options, "--undo", capsys=capsys)[0] == 0
    assert _tree(home) == before
    assert "nothing to undo" in _skill("install", "cursor", *options, "--undo", capsys=capsys)[1]


def test_a_copy_of_another_version_is_replaced(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = home / ".claude" / "skills" / NAME
    old = home / "old.md"
    old.write_text("old")
    folder.write(folder.Copy(place, {"SKILL.md": old, "references/gone.md": old}, {}))
    assert _skill("install", "claude", "--as", "skill", "--yes", capsys=capsys)[0] == 0
    assert (place / "SKILL.md").read_bytes() == (ROOT / "SKILL.md").read_bytes()
    assert not (place / "references" / "gone.md").exists()
    assert [path.name for path in place.parent.iterdir()] == [NAME]


def test_a_clone_or_a_link_in_its_place_stays(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = home / ".claude" / "skills" / NAME
    _put(place / "SKILL.md", "a clone")
    code, _, err = _skill("install", "claude", "--as", "skill", "--yes", capsys=capsys)
    assert code == 1
    assert "is not as" in err
    assert (place / "SKILL.md").read_text() == "a clone"
    place.rename(home / "clone")
    place.symlink_to(home / "clone")
    for options in ((), ("--undo",)):
        code, _, err = _skill("install", "claude", "--as", "skill", "--yes", *options, capsys=capsys)
        assert code == 1
        assert f"is a link to {home}/clone" in err
