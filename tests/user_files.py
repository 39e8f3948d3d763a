"""Files as users write them, for tests of what reads, imports or runs them."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def written(path: Path, source: str) -> Path:
    """Write a file with this source, dedented."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(textwrap.dedent(source).lstrip("\n"))
    return path


def line_of(path: Path, text: str) -> int:
    """Return the number of the first line that contains `text`."""
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def imported(path: Path, source: str) -> Any:
    """Import a file with this source under a unique name."""
    return module_of(written(path, source))


def module_of(path: Path) -> Any:
    """Import a file that is on no path under a unique name."""
    spec = importlib.util.spec_from_file_location(f"user_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def same_interpreter(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore modules, path, arguments and finders after the test."""
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    before = dict(sys.modules)
    yield
    for name in [*sys.modules]:
        if name not in before and "/pytest-" in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
    sys.modules.update(before)
