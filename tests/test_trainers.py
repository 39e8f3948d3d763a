"""The programs of references/trainers.md ran as they stand, override methods as these are, and capture nothing that breaks."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
import trainers
from cudagraph_skill import cli

ROOT = Path(__file__).resolve().parent.parent
RUN = json.loads(trainers.EVIDENCE.read_text(encoding="utf-8"))
ROWS = {row["name"]: row for row in RUN["results"]}
TARGETS = {"graphed_lightning": "Graphed.work", "graphed_trainer": "GraphedTrainer.work", "graphed_accelerate": "Step.work"}


def test_every_program_was_run_as_it_stands_and_trained_the_same_weights() -> None:
    texts = trainers.programs()
    assert set(texts) == {"recorded", *ROWS}
    assert [name for name, row in ROWS.items() if (row["text"], row["helper"]) != (texts[name], texts["recorded"])] == [], (
        "run `python tests/trainers.py run` again"
    )
    assert [name for name, row in ROWS.items() if "error" in row or row["differs"] > row["allowed"]] == []


def test_the_reference_names_the_versions_and_whether_a_gpu_ran_it() -> None:
    opening = (ROOT / trainers.REFERENCE).read_text(encoding="utf-8").split("\n## ")[0]
    assert [f"{name} {RUN[name]}" for name in trainers.PACKAGES if f"{name} {RUN[name].partition('+')[0]}" not in opening] == []
    assert RUN["date"] in opening
    assert ("run on a GPU" in opening and RUN["gpu"] == "") or RUN["gpu"] in opening


@pytest.mark.parametrize("name", ROWS)
def test_methods_take_what_the_library_passes(name: str) -> None:
    signatures = {path.split(".")[-1]: found for path, found in ROWS[name]["signatures"].items()}
    tree = ast.parse(trainers.programs()[name])
    called = {node.func.attr for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)}
    defined = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert signatures.keys() & (called | defined.keys())
    for method in signatures.keys() & defined.keys():
        mine = [argument.arg for argument in defined[method].args.args[1:]]
        assert mine == signatures[method]["arguments"] or "args" in signatures[method]["arguments"]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in signatures:
            _assert_call_fits(node, signatures[node.func.attr])


def _assert_call_fits(call: ast.Call, signature: dict[str, Any]) -> None:
    """Hold that a call passes what has no default, and no more than there are arguments."""
    takes_any = {"args", "models"} & set(signature["arguments"])
    assert len(call.args) <= len(signature["arguments"]) or takes_any
    assert {keyword.arg for keyword in call.keywords} <= set(signature["arguments"])
    needed = [each for each in signature["arguments"] if each not in signature["optional"]]
    assert needed[len(call.args) :] == [] or {keyword.arg for keyword in call.keywords} >= set(needed[len(call.args) :])


@pytest.mark.parametrize("name", TARGETS)
def test_the_static_check_finds_nothing_in_what_is_captured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for program, text in trainers.programs().items():
        Path(f"{program}.py").write_text(text, encoding="utf-8")
    # The model and the trainer come from the caller, and are named.
    assert cli.main(["check", "--json", f"{name}.py:{TARGETS[name]}"]) == 4
    report = json.loads(capsys.readouterr().out)
    assert report["findings"] == []
    assert all(part["reason"].endswith("whose code was not found") for part in report["unread"])
    wrong = trainers.programs()[name].replace("self.loss = ", "self.loss = float(self.x.max()) + ", 1)
    Path("wrong.py").write_text(wrong, encoding="utf-8")
    assert cli.main(["check", f"wrong.py:{TARGETS[name]}"]) == 1
