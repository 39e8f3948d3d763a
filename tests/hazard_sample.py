"""Three hazards in the form of references/hazards.md, for tests of what prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from cudagraph_skill.check import hazards

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
# Hazards

### CG101 changing-python-value
- **Severity** warning: frozen
- **Why** The number is a constant in the graph.
- **Fix** Keep it in a tensor.

### CG201 device-value-read
<!-- asks: why does item() break my graph -->
- **Severity** error: raises 900 at capture
- **Why** The value does not exist while the graph is recorded:
  the read waits, see [streams](streams.md#joins).
- **Fix** Keep the value in a tensor and read it after `replay()`.
- **Instead**

  ```python
  - **Fix** not this
  ```

### CG501 record-stream
- **Severity** info (torch >=2.11): costs memory
- **Why** The block is kept.
- **Fix** Leave it out.
"""


@pytest.fixture
def sample(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write TEXT to a file that replaces the skill's own table during the test."""
    path = tmp_path_factory.mktemp("skill") / "hazards.md"
    path.write_text(TEXT)
    known = hazards.table(path)
    monkeypatch.setattr(hazards, "table", lambda: known)
    return path
