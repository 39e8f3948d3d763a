"""What real clients said of the plugin and of `skill install` is kept, and is about the manifests of today."""

from __future__ import annotations

import json
import re
from typing import Any

import clients
import manifests
import pytest
from cudagraph_skill.setup.clients import CLIENTS

KEPT = json.loads(clients.EVIDENCE.read_text())
ROWS = [(name, row) for name, answers in KEPT["clients"].items() for row in answers["rows"]]


def test_the_answers_are_about_these_manifests() -> None:
    assert KEPT["shape"] == clients.shape(), "run tests/clients.py again: the manifests have changed in more than words"


def test_every_client_took_everything() -> None:
    assert {name for name, row in ROWS if row["ok"]} == {"claude", "codex", "gemini", "mcpb", "skills"}
    assert [row for _, row in ROWS if not row["ok"] or row["code"]] == []


@pytest.mark.parametrize("client", ["claude", "codex", "gemini"])
def test_each_connected_and_was_left_as_it_was(client: str) -> None:
    rows: dict[str, Any] = {row["command"]: row["seen"] for name, row in ROWS if name == client}
    assert client in CLIENTS
    assert any("as before" in line for command, seen in rows.items() if command.startswith("compare") for line in seen)
    if client != "codex":  # whose list does not connect
        assert any("Connected" in line for name, row in ROWS if name == client for line in row["seen"])


def test_the_cost_of_the_description_is_known() -> None:
    (details,) = [row["seen"] for _, row in ROWS if "plugin details" in row["command"]]
    (always,) = re.findall(r"Always-on: +~(\d+) tok", "\n".join(details))
    assert int(always) < 250
    assert f"counts {always} tokens in every session" in (clients.ROOT / "README.md").read_text()


def test_no_folder_of_a_machine_is_kept() -> None:
    assert re.findall(r"/(?:tmp|home|root|Users)/", clients.EVIDENCE.read_text()) == []


def test_words_and_versions_do_not_change_the_shape() -> None:
    known = manifests.facts()._replace(version="9.8.7", summary="Other words.", skill="Others: x.", keywords=["new"])
    assert clients.shape(known) == KEPT["shape"]
    assert clients.shape(known._replace(package="other-name")) != KEPT["shape"]
