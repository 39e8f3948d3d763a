"""Take secrets out of the environment of a server, so that code which it runs for a client does not get them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

_SECRET = re.compile(
    r"(?:^|_)(?:(?:ACCESS|API|AUTH|SECRET|PRIVATE|ID|REFRESH)?_?TOKEN|KEY|SECRET|PASSPHRASE|CREDENTIALS?|COOKIE|PAT|DSN)"
    r"(?:S|_ID|_FILE|_BASE64|_JSON)?$|(?:PASSWORD|PASSWD|APIKEY)(?:_FILE)?$|^AWS_(?!CA_BUNDLE$|(?:DEFAULT_)?REGION$)|^AZURE_|^GCP_|^GOOGLE_APPLICATION_|_AUTH$"
    r"|^SSH_AUTH_SOCK$|^SSH_AGENT_PID$|^GPG_AGENT_INFO$|^NETRC$",
    re.IGNORECASE,
)
_USER_IN_ADDRESS = re.compile(r"://[^/\s:@]*:[^/\s@]+@")  # DATABASE_URL, HTTP_PROXY


def is_secret(name: str, value: str) -> bool:
    """Return whether a variable is taken for a secret: by its name, or because it is an address with a password in it."""
    return bool(_SECRET.search(name) or _USER_IN_ADDRESS.search(value))


def scrub(passed: Collection[str]) -> list[str]:
    """Remove secrets from the environment of this process, but for the names that are `passed`; return their names."""
    removed = sorted(name for name, value in os.environ.items() if name not in passed and is_secret(name, value))
    for name in removed:
        del os.environ[name]
    return removed


def most_memory() -> int:
    """Return three quarters of the memory that this process may use, in bytes: the bound for code that is run."""
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            whole = min(whole, int(Path(file).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such bound, or "max"
            continue
    return whole // 4 * 3
