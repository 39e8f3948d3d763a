"""Build the documentation site: `sphinx-build -c docs -W . site`.

The pages are the Markdown files of this repository where they lie; added are the navigation, a first page that leads to the
README, and what GitHub does by itself with pictures for light and dark. MyST reads Markdown with markdown-it-py, as the
skill's own loader does, and headings get the anchors of that loader, so each link `path.md#heading` is checked. The theme
brings its own fonts and scripts, and the search needs no server.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

from cudagraph_skill import __version__  # noqa: E402

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = html_title = "CUDA Graphs for PyTorch"
author = "the contributors"
release = version = __version__
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "references/*.md", "benchmarks/README.md"]
extensions = ["myst_parser"]
myst_heading_anchors = 6
myst_heading_slug_func = "cudagraph_skill.corpus.load.slug"
highlight_language = "none"
html_theme = "furo"
html_copy_source = False
html_show_sourcelink = False
html_extra_path = ["first"]
html_static_path = ["static"]
html_css_files = ["site.css"]

_ERRORS = ("references/errors-", "references/causes-", "references/troubleshooting")
_PICTURE = re.compile(r'<picture>\s*<source[^>]*srcset="([^"]+)">\s*<img alt="([^"]+)" src="([^"]+)">\s*</picture>')


def _names(folder: str) -> list[str]:
    """Return the pages of a folder by name, without .md."""
    return sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in (ROOT / folder).glob("*.md"))


def _navigation() -> str:
    """Return the tables of contents of the sidebar: every page, but the first."""
    references = _names("references")
    captions = {
        "Use": ["SKILL.md <SKILL>", *_names("docs")],
        "References": [name for name in references if not name.startswith(_ERRORS)],
        "Errors and their causes": [name for name in references if name.startswith(_ERRORS)],
        "Project": ["benchmarks/README", *(name for name in _names(".") if name not in (root_doc, "SKILL"))],
    }
    return "\n\n".join(
        "\n".join([f"```{{toctree}}\n:hidden:\n:titlesonly:\n:caption: {caption}\n", *names, "```"])
        for caption, names in captions.items()
    )


def _read(_: Sphinx, page: str, source: list[str]) -> None:
    """Add the navigation to the first page, and write a picture for two colour schemes as the theme has it."""
    if page == root_doc:
        source[0] += f"\n{_navigation()}\n"
    source[0] = _PICTURE.sub(
        r"```{image} \3\n:alt: \2\n:class: only-light\n```\n\n```{image} \1\n:alt: \2\n:class: only-dark\n```", source[0]
    )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what is done to a page before it is read."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
