"""Reports fit their window in a real browser, narrow and wide, light and dark; without Chromium this is skipped."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cudagraph_skill.report import html
from user_files import module_of

DRAWING: Any = module_of(Path(__file__).resolve().parent.parent / "docs" / "pictures.py")
CHROMIUM = next(filter(None, map(shutil.which, DRAWING._CHROMIUM)), "")
WIDTHS = (500, 1280)  # a window of headless Chromium is no narrower than 500
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')
ASKED = """<script>document.body.dataset.seen = [
innerWidth, document.documentElement.scrollWidth, getComputedStyle(document.body).backgroundColor].join(";")</script>"""
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")]


def shown(file: Path, width: int, scheme: int) -> list[str]:
    """Return the width of the window, that of the page in it, and the colour of its ground."""
    own = [f"--user-data-dir={file.parent / 'profile'}", f"--blink-settings=preferredColorScheme={scheme}"]
    command = [CHROMIUM, *DRAWING._QUIET, *own, f"--window-size={width},1000", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    found = re.search(r'data-seen="([^"]+)"', done.stdout)
    assert found is not None
    return found[1].split(";")


@pytest.mark.parametrize("name", ["bench", "decide", "map", "tune"])
def test_a_report_fits_its_window_and_follows_the_colour_scheme(name: str, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    page = POLICY.sub("", html.rendered(DRAWING.pages()[name]))  # which forbids scripts: the question is one
    file.write_text(page.replace("</body>", f"{ASKED}</body>"), encoding="utf-8")
    grounds = set()
    for width in WIDTHS:
        for scheme in DRAWING.SCHEMES.values():
            window, content, ground = shown(file, width, scheme)
            assert (int(window), int(content)) == (width, width)
            grounds.add(ground)
    assert len(grounds) == len(DRAWING.SCHEMES)
