"""`skill config` on configurations as people write them: scripts, documents and keyword arguments, and what cannot be read."""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cudagraph_skill.config import correct, examine
from cudagraph_skill.config.constraint import CONSTRAINTS
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.config import Report

CASES: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "config/styles.yaml").read_text())


def _check(case: dict[str, Any]) -> Callable[[str], Report]:
    suffix = Path(case["file"]).suffix
    variables = {name: str(value) for name, value in case.get("env", {}).items()}
    return partial(examine, suffix=suffix, wanted=case["for"].split(","), variables=variables, arch=case.get("arch"))


def _found(report: Report) -> tuple[set[str], set[str]]:
    return {violation.id for violation in report.violations}, {rename.old for rename in report.renames}


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_a_configuration_violates_what_the_packages_refuse(case: dict[str, Any]) -> None:
    check = _check(case)
    report = check(case["text"])
    assert _found(report) == (set(case.get("violates", [])), set(case.get("renames", []))), report.unread
    assert set(case.get("violates", [])) <= {*CONSTRAINTS, "option-not-in-release"}
    if case.get("by_hand"):
        return
    corrected = correct(case["text"], check)
    assert _found(check(corrected.text)) == (set(), set()), corrected


def test_the_names_of_cases_are_unique() -> None:
    names = [case["id"] for case in CASES]
    assert len(names) == len(set(names))


_BAD = {
    "a merge of itself": (".yaml", "a: &a\n  <<: *a\n  --cuda-graph-impl: local\n", "aliases counted each time"),
    "a list in itself": (".yaml", "a: &a [1, *a]\n", "aliases counted each time"),
    "merges of merges": (
        ".yaml",
        "a0: &a0 {k: v}\n"
        + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}\n" for n in range(1, 9))
        + "MODEL_ARGS: {<<: *a8}\n",
        "aliases counted each time",
    ),
    "a deep document": (".yaml", "[" * 5000 + "]" * 5000, "nested too deeply"),
    "deep JSON": (".json", "[" * 100_000 + "]" * 100_000, "it is nested too deeply"),
    "a large document": (".yaml", "x: 1\n" * 300_000, "more than 20000 values"),
    "a tag": (".yaml", "MODEL_ARGS:\n  --cuda-graph-impl: !!python/name:os.system\n", "would make an object"),
    "a zero byte": (".yaml", "a: \x00", "no YAML that can be read"),
    "nested loops": (
        ".sh",
        "for a in 1 2 3 4 5 6 7 8 9; do\n" * 9 + "torchrun p.py --cuda-graph-impl local\n" + "done\n" * 9,
        "runs more than 20000 commands",
    ),
    "nested conditions": (".sh", "if true; then\n" * 300 + "a --cuda-graph-impl local\n" + "fi\n" * 300, "nests more than 40"),
    "a long script": (".sh", "A=1\n" * 50_000 + "torchrun p.py --cuda-graph-impl local\n", "runs more than 20000 commands"),
}


@pytest.mark.parametrize("name", _BAD)
def test_bad_input_ends_in_one_sentence(name: str) -> None:
    suffix, text, says = _BAD[name]
    start = time.monotonic()
    with pytest.raises(SkillError, match=re.escape(says)) as error:
        examine(text, suffix, ["megatron-core==0.17.1"])
    assert "\n" not in str(error.value)
    assert time.monotonic() - start < 120


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "".join('A="$A $A"\n' for _ in range(60)),
        "".join('A=("${A[@]}" "${A[@]}" x)\n' for _ in range(60)),
        'f() { f "$@"; f "$@"; }\nf a\n',
        "echo " + "${A:-" * 3000 + "}" * 3000 + "\n",
        'case $x in a) B="',
        "cat > x <<EOF\nno end\n",
        "fi\ndone\n}\n;;\n",
    ],
)
def test_a_script_that_grows_or_does_not_end_is_bounded(text: str) -> None:
    start = time.monotonic()
    examine(f"torchrun p.py --cuda-graph-impl local\n{text}", ".sh", ["megatron-core==0.17.1"])
    assert time.monotonic() - start < 120
