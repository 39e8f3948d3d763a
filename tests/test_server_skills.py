"""The skill as MCP resources and through the Skills extension: what a host lists, reads and verifies."""

from __future__ import annotations

import asyncio
import hashlib
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cudagraph_skill.paths import skill_root
from cudagraph_skill.setup.folder import own_files
from cudagraph_skill_server import app, skills
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import PaginatedRequestParams, Request, Result
from pydantic import ConfigDict

if TYPE_CHECKING:
    from pathlib import Path

ROOT = "skill://cuda-graphs"
ENTRY = f"{ROOT}/SKILL.md"
ERAS = pytest.mark.parametrize("mode", ["auto", "legacy"])
MOST_FILES, MOST_BYTES = 512, 16 * 2**20  # what every host accepts

_built = cache(app.build)


class _Params(PaginatedRequestParams):
    uri: str | None = None


class _Asked(Request[_Params, str]):
    method: str
    params: _Params


class _Answer(Result):
    model_config = ConfigDict(extra="allow")


def _ask(call: Any, **options: Any) -> Any:
    async def talk() -> Any:
        async with Client(_built(), **options) as client:
            return await call(client)

    return asyncio.run(talk())


def _requested(method: str, mode: str = "auto", **params: str) -> dict[str, Any]:
    request = _Asked(method=method, params=_Params.model_validate(params))
    answer = _ask(lambda client: client.session.send_request(request, _Answer), mode=mode)
    data: dict[str, Any] = answer.model_dump(by_alias=True, exclude_none=True)
    return data


def _refused(call: Any) -> str:
    async def caught(client: Any) -> MCPError:
        with pytest.raises(MCPError) as raised:
            await call(client)
        return raised.value

    error = _ask(caught)
    assert error.code == -32602
    return str(error.message)


def _read(uri: str, mode: str = "auto") -> Any:
    (content,) = _ask(lambda client: client.read_resource(uri), mode=mode).contents
    return content


def test_the_extension_is_announced_to_clients_of_its_protocol() -> None:
    async def announced(client: Any) -> Any:
        return client.server_capabilities.extensions

    assert _ask(announced) == {"io.modelcontextprotocol/skills": {"directoryRead": True}}
    assert _ask(announced, mode="legacy") is None  # the field is younger than the protocol


@ERAS
def test_the_entry_lists_each_file_that_install_copies_with_its_size_and_digest(mode: str) -> None:
    answer = _requested("skills/list", mode)
    (entry,) = answer["skills"]
    files = {f"{ROOT}/{name}": path.read_bytes() for name, path in own_files().items()}
    assert entry["uri"] == ENTRY
    assert [row["uri"] for row in entry["resources"]] == list(files)
    assert {row["uri"]: (row["digest"], row["size"]) for row in entry["resources"]} == {
        uri: (f"sha256:{hashlib.sha256(content).hexdigest()}", len(content)) for uri, content in files.items()
    }
    assert _requested("skills/get", mode, uri=ENTRY) == {
        **{name: value for name, value in answer.items() if name != "skills"},
        "skill": entry,
    }


def test_a_host_can_hold_the_skill() -> None:
    (entry,) = _requested("skills/list")["skills"]
    assert len(entry["resources"]) <= MOST_FILES
    assert sum(row["size"] for row in entry["resources"]) <= MOST_BYTES


def test_the_frontmatter_is_that_of_the_file() -> None:
    (entry,) = _requested("skills/list")["skills"]
    head = (skill_root() / "SKILL.md").read_text(encoding="utf-8").split("\n---\n")[0].removeprefix("---\n")
    assert entry["frontmatter"] == yaml.load(head, yaml.BaseLoader)  # every value is text, to every parser of YAML
    assert entry["frontmatter"]["name"] == ENTRY.split("/")[-2]


def test_what_is_announced_may_be_kept_for_a_while() -> None:
    directory = _requested("resources/directory/read", uri=ROOT)  # which a client reads as it reads other lists
    for answer in (_requested("skills/list"), _requested("skills/get", uri=ENTRY), directory):
        assert (answer["ttlMs"], answer["cacheScope"], answer["resultType"]) == (300_000, "public", "complete")
    for kind in ("tools", "prompts", "resources", "resource_templates"):
        answer = _ask(lambda client, kind=kind: getattr(client, f"list_{kind}")())
        assert (answer.ttl_ms, answer.cache_scope) == (300_000, "public")
    assert _ask(lambda client: client.read_resource(ENTRY)).cache_scope == "public"


@ERAS
def test_every_file_is_read_as_it_is_on_disk(mode: str) -> None:
    async def read(client: Any) -> dict[str, str]:
        return {name: (await client.read_resource(f"{ROOT}/{name}")).contents[0].text for name in own_files()}

    assert {name: text.encode() for name, text in _ask(read, mode=mode).items()} == {
        name: path.read_bytes() for name, path in own_files().items()
    }


def test_line_ends_a_mark_and_bytes_that_are_no_text_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {"lines.md": b"\xef\xbb\xbf# A\r\nb\n", "latin.txt": "\xe9".encode("latin-1"), "code.py": b"", "no-suffix": b"a"}
    files = {f"{ROOT}/{name}": tmp_path / name for name in contents}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    monkeypatch.setattr(skills, "_files", lambda: files)
    assert skills.content(f"{ROOT}/lines.md") == ("\ufeff# A\r\nb\n", "text/markdown")
    assert skills.content(f"{ROOT}/latin.txt") == (b"\xe9", "application/octet-stream")
    assert skills.content(f"{ROOT}/code.py") == ("", "text/x-python")
    assert skills.content(f"{ROOT}/no-suffix") == ("a", "text/plain")
    assert _read(f"{ROOT}/latin.txt").blob == "6Q=="


@pytest.mark.parametrize(
    "uri",
    [
        f"{ROOT}/../README.md",
        f"{ROOT}/references/../SKILL.md",
        f"{ROOT}/references/%2e%2e/SKILL.md",
        f"{ROOT}/references%2Fstreams.md",
        f"{ROOT}//etc/passwd",
        f"{ROOT}/references",
        f"{ROOT}/references/streams.md\0",
        f"{ROOT}/references\\streams.md",
        f"{ROOT}/README.md",
        f"{ROOT}/pyproject.toml",
        f"{ROOT}/references/none.md",
        f"{ENTRY}/",
        ROOT,
        "skill://other/SKILL.md",
        "file:///etc/passwd",
    ],
)
def test_nothing_else_is_read(uri: str) -> None:
    said = _refused(lambda client: client.read_resource(uri))
    assert said.startswith("there is no resource ")
    assert f"give {ROOT}/PATH for a file of the skill" in said


def test_what_a_client_lists_is_what_is_read() -> None:
    listed = {str(each.uri): each for each in _ask(lambda client: client.list_resources()).resources}
    references = {f"{ROOT}/references/{path.name}" for path in (skill_root() / "references").glob("*.md")}
    assert set(listed) == {ENTRY, *references}
    (entry,) = _requested("skills/list")["skills"]
    sizes = {row["uri"]: row["size"] for row in entry["resources"]}
    assert (listed[ENTRY].name, listed[ENTRY].description) == ("cuda-graphs", entry["frontmatter"]["description"])
    assert all(each.mime_type == "text/markdown" and each.title and each.size == sizes[uri] for uri, each in listed.items())


def test_directories_lead_to_every_file() -> None:
    found: list[str] = []
    waiting = [ROOT]
    while waiting:
        folder = waiting.pop()
        for row in _requested("resources/directory/read", uri=folder)["resources"]:
            assert row["uri"].rpartition("/")[0] == folder
            (waiting if row["mimeType"] == "inode/directory" else found).append(row["uri"])
    assert sorted(found) == sorted(f"{ROOT}/{name}" for name in own_files())


def test_a_row_of_a_directory_is_that_of_the_list() -> None:
    listed = _ask(lambda client: client.list_resources()).model_dump(mode="json", by_alias=True, exclude_none=True)["resources"]
    rows = _requested("resources/directory/read", uri=f"{ROOT}/references")["resources"]
    assert rows == [row for row in listed if "/references/" in row["uri"]]


@pytest.mark.parametrize(
    ("method", "params", "why"),
    [
        ("skills/get", {"uri": f"{ROOT}/references/streams.md"}, f"no skill is served at {ROOT}/references/streams.md"),
        ("skills/get", {"uri": "skill://other/SKILL.md"}, f"the one here is {ENTRY}"),
        ("resources/directory/read", {"uri": ENTRY}, "is a file: give a directory"),
        ("resources/directory/read", {"uri": f"{ROOT}/references/"}, "is not served"),
        ("resources/directory/read", {"uri": f"{ROOT}/references/.."}, "is not served"),
        ("resources/directory/read", {"uri": "skill:"}, "is not served"),
        ("resources/directory/read", {"uri": ROOT, "cursor": "2"}, "leave cursor out"),
        ("skills/list", {"cursor": "2"}, "leave cursor out"),
        ("skills/get", {}, "Invalid"),
    ],
)
def test_a_refusal_says_what_to_give(method: str, params: dict[str, str], why: str) -> None:
    request = _Asked(method=method, params=_Params.model_validate(params))
    assert why in _refused(lambda client: client.session.send_request(request, _Answer))
