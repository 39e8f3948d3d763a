"""Build the wheel and the source distribution so that a commit, built again with the same setuptools, gives the same bytes.

    python tests/release.py FOLDER [CLONE]     builds CLONE's commit (default: this one) into FOLDER, and prints the digests

A clean clone is built with one umask and with the commit's date as SOURCE_DATE_EPOCH, the wheel from the source distribution.
setuptools heeds that date in a wheel; the archive of the sources is packed again here: sorted, and without owners and times.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build(folder: Path, clone: Path = ROOT) -> dict[str, str]:
    """Return the SHA-256 digests of what was built, by name.

    Raises:
        subprocess.CalledProcessError: git or the build failed.
    """
    date = subprocess.run(
        ["git", "-C", str(clone), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=True
    ).stdout.strip()
    os.umask(0o022)  # modes of files are part of a wheel
    with tempfile.TemporaryDirectory() as spare:
        subprocess.run(["git", "clone", "--quiet", str(clone), f"{spare}/source"], check=True)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": date}
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), f"{spare}/source"]
        subprocess.run(command, check=True, env=environment, capture_output=True, text=True)
    for path in folder.glob("*.tar.gz"):
        _pack_again(path, int(date))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def _pack_again(path: Path, date: int) -> None:
    packed = BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda each: each.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname, member.pax_headers = date, 0, 0, "", "", {}
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with path.open("wb") as file, gzip.GzipFile("", "wb", 9, file, date) as squeezed:
        squeezed.write(packed.getvalue())


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for name, digest in build(Path(sys.argv[1]), *map(Path, sys.argv[2:])).items():
        print(f"{digest}  {name}")
