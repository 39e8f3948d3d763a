"""Streamable HTTP: on this machine alone unless asked otherwise, with Host, Origin and token looked at before all else."""

from __future__ import annotations

import errno
import hmac
import ipaddress
import json
import re
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from cudagraph_skill.errors import SkillError
from mcp.server.transport_security import TransportSecuritySettings

from cudagraph_skill_server.limits import BUSY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mcp.server import MCPServer
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/mcp"
REQUESTS = 128  # POSTs under way at once, of all clients
_SESSIONS = 256  # of clients of the handshake era
_CONNECTIONS = 1024
_IDLE = 1800.0  # seconds after which such a session is closed
BODY = 1 << 20  # bytes of a request: a long log has a tenth
_BODY_SECONDS = 30.0  # until the body of a request must have come
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")


class Address(NamedTuple):
    """Where to listen, as `--http` has it."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """Return the address that a client is given."""
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}{PATH}"

    def is_loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def address(text: str) -> Address:
    """Read `[HOST:]PORT`; the host is 127.0.0.1 where none is given.

    Raises:
        SkillError: it is none.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host.startswith("[") and host.endswith("]") else host
    is_whole = not colon or (host and (":" not in host or text.startswith("[")))
    if not is_whole or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SkillError(f"--http {text[:100]} is no address: write PORT, HOST:PORT or [IPV6]:PORT, such as --http 8765")
    return Address(host or "127.0.0.1", int(port))


def exposed(name: str) -> str:
    """Check a name by which clients call this server.

    Raises:
        SkillError: it is none.
    """
    if not _NAME.fullmatch(name):
        raise SkillError(
            f"--expose {name[:100]} is no name of a host: give it without http:// and port, such as gpu7.example.org"
        )
    return name.lower()


def bound(where: Address) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        SkillError: that cannot be done: exit code 3, or 2 where there is no such host.
    """
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)[0]
    except OSError:
        raise SkillError(f"--http {where.host}:{where.port}: this machine knows no host {where.host}; leave it out") from None
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(512)
    except OSError as error:
        listening.close()
        why = {
            errno.EADDRINUSE: "another program has this port: choose another one, or 0 for any that is free",
            errno.EACCES: "this user may not listen there: take a port from 1024 up",
            errno.EADDRNOTAVAIL: "this machine has no such address: take one of its own",
        }.get(error.errno or 0, str(error.strerror))
        raise SkillError(f"--http {where.host}:{where.port}: {why}", 3) from None
    return listening


def serve(server: MCPServer[Any], listening: socket.socket, token: str, names: Sequence[str]) -> None:
    """Answer on the socket until a signal ends this process."""
    import uvicorn

    hosts = [*_LOOPBACK, *names]
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        max_request_body_size=BODY,
        session_idle_timeout=_IDLE,
        max_sessions=_SESSIONS,
        transport_security=TransportSecuritySettings(
            allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
            allowed_origins=[origin for host in hosts for origin in _origins(host)],
        ),
    )
    config = uvicorn.Config(
        Guard(app, token, hosts),
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        ws="none",
        lifespan="on",
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=3,
        h11_max_incomplete_event_size=1 << 15,
        http="h11",
    )
    uvicorn.Server(config).run(sockets=[listening])


def _origins(host: str) -> list[str]:
    return [f"{scheme}://{host}{port}" for scheme in ("http", "https") for port in ("", ":*")]


class Guard:
    """Refuses a request of another host, of a page of another site, without the token, or one too many; passes the others on.

    The SDK's own token verifier is for servers of OAuth: it publishes metadata that send clients to an authorization server,
    which there is none of here.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Sequence[str], most: int = REQUESTS) -> None:
        self._app, self._token, self._hosts, self._most = app, token.encode(), set(hosts), most
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif refusal := self._refusal(scope):
            await _refuse(send, *refusal)
        elif scope["method"] != "POST":
            await self._app(scope, receive, send)
        elif self._under_way >= self._most:
            await _refuse(send, 503, BUSY, f"{self._most} requests are under way: try again in a second")
        else:
            self._under_way += 1
            try:
                await self._app(scope, _hurried(receive), send)
            finally:
                self._under_way -= 1

    def _refusal(self, scope: Scope) -> tuple[int, int, str] | None:
        """Return status, code and sentence for a request that is not let in."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts, origins, shown = (headers.get(name, []) for name in (b"host", b"origin", b"authorization"))
        if len(hosts) != 1 or _host(hosts[0]) not in self._hosts:
            return (
                421,
                -32600,
                "the Host header names another machine: call this server by its own name (`--expose NAME` adds one)",
            )
        if len(origins) > 1 or (origins and not self._is_ours(origins[0])):
            return 403, -32600, "the Origin header names another site: this server answers none but its own"
        if self._token and not (len(shown) == 1 and self._is_token(shown[0])):
            return 401, -32600, "this server asks for a token: send the header `Authorization: Bearer TOKEN`"
        return None

    def _is_ours(self, origin: bytes) -> bool:
        scheme, colon, host = origin.partition(b"://")
        return bool(colon) and scheme in (b"http", b"https") and _host(host) in self._hosts

    def _is_token(self, shown: bytes) -> bool:
        scheme, _, token = shown.partition(b" ")
        return hmac.compare_digest(token.strip(), self._token) and scheme.lower() == b"bearer"


def _host(header: bytes) -> str:
    """Return the name in a Host header, "" for one that is none."""
    match = re.fullmatch(rb"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?", header)
    return match[1].decode().lower() if match else ""


def _hurried(receive: Receive) -> Receive:
    """Return `receive` that takes a client for gone which does not send the body of its request in time."""
    is_whole = False
    end = anyio.current_time() + _BODY_SECONDS

    async def next_message() -> Message:
        nonlocal is_whole
        if is_whole:
            return await receive()
        with anyio.move_on_after(max(0.0, end - anyio.current_time())):
            message = await receive()
            is_whole = not message.get("more_body", False)
            return message
        return {"type": "http.disconnect"}

    return next_message


async def _refuse(send: Send, status: int, code: int, sentence: str) -> None:
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": sentence}}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    more = {401: [(b"www-authenticate", b"Bearer")], 503: [(b"retry-after", b"1")]}
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *more.get(status, [])]})
    await send({"type": "http.response.body", "body": body})
