"""The pictures of the gallery show what the evidence says now, and are small enough to look at."""

from __future__ import annotations

import importlib.util
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "docs" / "gallery.md"
MOST_BYTES, MOST_BYTES_OF_ALL = 200_000, 1_000_000


@pytest.fixture(scope="module")
def drawing() -> Any:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_picture_was_drawn_of_the_evidence_as_it_is_now(drawing: Any) -> None:
    drawn = json.loads(drawing.DRAWN.read_text(encoding="utf-8"))
    stale = [name for name, page in drawing.pages().items() if drawn.get(name) != drawing.digest(page)]
    assert stale == [], "run `python docs/pictures.py write`"
    assert (drawing.PICTURES / "bench.svg").read_text(encoding="utf-8") == drawing.figure()


def test_each_report_says_what_the_run_on_the_gpu_said(drawing: Any) -> None:
    pages = drawing.pages()
    rows = {
        name: drawing._kept(file, id_)[1]
        for name, file, id_ in (
            ("decide", "decisions.json", drawing.DECIDED),
            ("map", "maps.json", drawing.MAPPED),
            ("tune", "tuning.json", drawing.TUNED),
        )
    }
    assert re.findall(r"[\d.]+", pages["decide"].said) == re.findall(r"[\d.]+", rows["decide"]["decision"]["said"])
    assert pages["tune"].said == rows["tune"]["tuning"]["said"]
    assert pages["tune"].notes == rows["tune"]["tuning"]["notes"]
    predicted = rows["map"]["map"]["predicted"]
    assert [bar.seconds for bar in pages["map"].bars[1:3]] == pytest.approx(
        [predicted["what captures now"], predicted["one graph"]], rel=1e-9
    )
    assert [cell.text for cell in pages["map"].tables[0].rows[0]][-1] == rows["map"]["map"]["regions"][0]["graph"]


def test_the_gallery_shows_every_picture_in_both_colour_schemes(drawing: Any) -> None:
    text = GALLERY.read_text(encoding="utf-8")
    named = set(re.findall(r"pictures/([\w.-]+)", text))
    assert named == {path.name for path in drawing.PICTURES.iterdir() if path != drawing.DRAWN}
    assert {f"{name}-{scheme}.png" for name in drawing.pages() for scheme in drawing.SCHEMES} < named


def test_numbers_in_a_pictures_description_are_in_its_report(drawing: Any) -> None:
    described = re.findall(r'<img alt="([^"]+)" src="pictures/(\w+)-light.png">', GALLERY.read_text(encoding="utf-8"))
    pages = drawing.pages()
    assert {name for _, name in described} == set(pages)
    for text, name in described:
        numbers = re.findall(r"[\d.]+ (?:ms|us|times)", text)
        assert numbers
        assert [number for number in numbers if number not in repr(pages[name])] == []


def test_pictures_are_small(drawing: Any) -> None:
    sizes = {path.name: path.stat().st_size for path in drawing.PICTURES.iterdir()}
    assert [name for name, size in sizes.items() if size > MOST_BYTES] == []
    assert sum(sizes.values()) <= MOST_BYTES_OF_ALL
    for path in drawing.PICTURES.glob("*.png"):
        data = path.read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", data[16:24])[0] == drawing._WIDE
