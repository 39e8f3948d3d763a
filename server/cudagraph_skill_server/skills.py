"""The skill's files as resources, and the Skills extension of MCP (SEP-2640), by which a host finds and verifies them.

The files are those that `skill install CLIENT --as skill` copies, under `skill://cuda-graphs/`. Each is read from disk when it
is asked for, and so are its size and digest: the three agree while a contributor edits a reference.

The extension is of protocol 2026-07-28. The SDK announces it in `server/discover` alone and leaves it out of the answer to
`initialize`, where older protocols have no such field. A client of that era therefore sees tools, prompts, resource templates
and, as ordinary resources, SKILL.md and the references. The three methods answer it all the same.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from cudagraph_skill.paths import skill_root
from mcp.server.caching import CacheHint
from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams, Resource

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mcp.server.caching import CacheableMethod
    from mcp.server.context import ServerRequestContext
    from mcp.server.extension import RequestHandler

ROOT = "skill://cuda-graphs"
ENTRY = f"{ROOT}/SKILL.md"
FRESH = CacheHint(ttl_ms=300_000, scope="public")  # five minutes: the files change with a release, and are everybody's
UNCHANGING: tuple[CacheableMethod, ...] = (  # while the server runs, and the same for every client
    "server/discover",
    "tools/list",
    "prompts/list",
    "resources/list",
    "resources/templates/list",
    "resources/read",
)
_DIRECTORY = "inode/directory"
_TYPES = {".md": "text/markdown", ".py": "text/x-python", ".yaml": "application/yaml"}  # others are plain text, or bytes


class _Named(RequestParams):
    """Parameters of `skills/get`."""

    uri: str


class _NamedDirectory(PaginatedRequestParams):
    """Parameters of `resources/directory/read`."""

    uri: str


class Skills(Extension):
    """The extension `io.modelcontextprotocol/skills` with one skill."""

    identifier = "io.modelcontextprotocol/skills"

    def settings(self) -> dict[str, Any]:
        """Return what is announced beside the extension's name."""
        return {"directoryRead": True}

    def methods(self) -> Sequence[MethodBinding]:
        """Return the requests that it answers."""
        return (
            MethodBinding("skills/list", PaginatedRequestParams, _answering(_listed)),
            MethodBinding("skills/get", _Named, _answering(_got)),
            MethodBinding("resources/directory/read", _NamedDirectory, _answering(_directory)),
        )


def _answering(answer: Callable[[Any], dict[str, Any]]) -> RequestHandler:
    """Return a handler that answers in a thread, since it reads files."""

    async def handler(_: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
        return await anyio.to_thread.run_sync(answer, params)

    return handler


def _listed(params: PaginatedRequestParams) -> dict[str, Any]:
    _refuse_cursor(params, "skills/list")
    return {"skills": [_skill()], **_FRESHNESS}


def _got(params: _Named) -> dict[str, Any]:
    if params.uri != ENTRY:
        raise _refused(params.uri, f"no skill is served at {params.uri}: the one here is {ENTRY}")
    return {"skill": _skill(), **_FRESHNESS}


def _directory(params: _NamedDirectory) -> dict[str, Any]:
    """Return what lies directly in a folder: its files, and its folders as directories."""
    _refuse_cursor(params, "resources/directory/read")
    below = f"{params.uri}/"
    is_ours = below.startswith(f"{ROOT}/")  # `skill:` is the beginning of each URI too
    inside = [uri.removeprefix(below) for uri in _files() if is_ours and uri.startswith(below)]
    if not inside:
        what = "is a file" if params.uri in _files() else "is not served"
        raise _refused(params.uri, f"{params.uri} {what}: give a directory, such as {ROOT}/references")
    children = dict.fromkeys(below + name.partition("/")[0] for name in inside)
    rows = [described(uri) if uri in _files() else _folder(uri) for uri in children]
    return {"resources": [row.model_dump(mode="json", by_alias=True, exclude_none=True) for row in rows], **_FRESHNESS}


_FRESHNESS = {"ttlMs": FRESH.ttl_ms, "cacheScope": FRESH.scope}


def _refuse_cursor(params: PaginatedRequestParams, method: str) -> None:
    if params.cursor is not None:
        raise MCPError(code=INVALID_PARAMS, message=f"the answer of {method} has one page: leave cursor out")


def _refused(uri: str, why: str) -> MCPError:
    return MCPError(code=INVALID_PARAMS, message=why, data={"uri": uri})


@cache
def _files() -> Mapping[str, Path]:
    """Return the skill's files by URI. What is not in here is not read, whatever a URI looks like."""
    from cudagraph_skill.setup.folder import own_files

    return {f"{ROOT}/{name}": path for name, path in own_files().items()}


def names() -> list[str]:
    """Return the skill's files by their place in it."""
    return [uri.removeprefix(f"{ROOT}/") for uri in _files()]


def _skill() -> dict[str, Any]:
    """Return the entry of the skill: its frontmatter, and each file with its size and digest."""
    rows = []
    for uri, path in _files().items():
        whole = path.read_bytes()
        rows.append({"uri": uri, "digest": f"sha256:{hashlib.sha256(whole).hexdigest()}", "size": len(whole)})
    return {"uri": ENTRY, "frontmatter": frontmatter(), "resources": rows}


def frontmatter() -> dict[str, Any]:
    """Return the fields at the head of SKILL.md as a host parses them, to compare both."""
    import yaml

    _, head, _ = (skill_root() / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)
    fields: dict[str, Any] = json.loads(json.dumps(yaml.safe_load(head)))
    return fields


def listed() -> list[Resource]:
    """Return SKILL.md and the references: what is read. A client lists it to its user; code is found by its URI."""
    return [described(uri) for uri in _files() if uri == ENTRY or uri.startswith(f"{ROOT}/references/")]


def described(uri: str) -> Resource:
    """Return what a client is told of a file."""
    path, name = _files()[uri], uri.removeprefix(f"{ROOT}/")
    title = _title(path) if path.suffix == ".md" else None
    fields: dict[str, Any] = frontmatter() if uri == ENTRY else {"name": name, "description": title}
    return Resource(
        uri=uri,
        name=fields["name"],
        title=title,
        description=fields["description"],
        mime_type=_type(path),
        size=path.stat().st_size,
    )


def _folder(uri: str) -> Resource:
    return Resource(uri=uri, name=uri.removeprefix(f"{ROOT}/"), mime_type=_DIRECTORY)


def _title(path: Path) -> str:
    lines = path.read_text(encoding="utf-8").splitlines()
    return next(line for line in lines if line.startswith("# ")).removeprefix("# ")


def content(uri: str) -> tuple[str | bytes, str] | None:
    """Return a file as it is on disk, text where it is UTF-8, and its type; None where the skill has no such file."""
    path = _files().get(uri)
    if path is None:
        return None
    whole = path.read_bytes()
    try:
        return whole.decode(), _type(path)  # not read_text, which changes line ends: the digest is of these bytes
    except UnicodeDecodeError:
        return whole, "application/octet-stream"


def _type(path: Path) -> str:
    return _TYPES.get(PurePosixPath(path).suffix, "text/plain")
