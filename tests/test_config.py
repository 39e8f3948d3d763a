"""`skill config`: every constraint on a configuration that violates it and one that keeps it, and texts as users write them."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from cudagraph_skill import cli
from cudagraph_skill.config import correct, examine
from cudagraph_skill.config.constraint import CONSTRAINTS
from cudagraph_skill.config.releases import dotted
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from cudagraph_skill.config import Report
    from cudagraph_skill.corpus.section import Section

CASES: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "config/constraints.yaml").read_text())
RECIPES: dict[str, dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "config/recipes.yaml").read_text())


def _report(text: str, releases: str, **given: Any) -> Report:
    text = text.replace("; ", "\n") if text.startswith("cfg") else text
    suffix = ".py" if re.match(r"cfg|TransformerConfig", text) else ".sh"
    return examine(text, suffix, releases.split(","), **given)


def _ids(report: Report) -> set[str]:
    return {violation.id for violation in report.violations}


def test_constraints_cases_and_prose_have_the_same_ids(sections: list[Section]) -> None:
    written = {
        section.headings[-1] for section in sections if section.path == "references/constraints.md" and section.level == 3
    }
    assert written == {*CONSTRAINTS, "option-not-in-release"} == set(CASES)


def test_prose_gives_the_releases_of_the_code(sections: list[Section]) -> None:
    texts = {section.headings[-1]: section.text for section in sections if section.path == "references/constraints.md"}
    for name, row in CONSTRAINTS.items():
        line = re.search(r"\*\*Versions\*\* (.*)", texts[name])
        assert line, name
        assert (f">={dotted(row.since)}" in line[1]) == (row.since > (0,)), name
        assert (f"<{dotted(row.until)}" in line[1]) == (row.until < (9999,)), name
        assert line[1].startswith("megatron-bridge" if row.of_bridge else "megatron-core"), name


@pytest.mark.parametrize("name", CASES)
def test_a_constraint_finds_what_violates_it_and_leaves_alone_what_keeps_it(name: str) -> None:
    case = CASES[name]
    arch = case.get("arch", 90)
    report = _report(case["violates"], case["for"], arch=arch)
    assert name in _ids(report), report.unread
    violation = next(violation for violation in report.violations if violation.id == name)
    assert violation.message
    assert violation.fix
    kept = _report(case["passes"], case["for"], arch=arch)
    assert _ids(kept) == set()
    assert all("base_config()" in reason for reason in kept.unread)
    if "taken_by" in case:
        assert name not in _ids(_report(case["violates"], case["taken_by"], arch=arch))


@pytest.mark.parametrize("name", CASES)
def test_a_corrected_text_violates_nothing(name: str) -> None:
    case = CASES[name]
    text = case["violates"].replace("; ", "\n") if case["violates"].startswith("cfg") else case["violates"]
    corrected = correct(text, lambda new: _report(new, case["for"], arch=case.get("arch", 90)))
    left = _report(corrected.text, case["for"], arch=case.get("arch", 90))
    by_hand = {one.id for one in left.violations if not one.changes} | {reason.partition(":")[0] for reason in corrected.left}
    assert _ids(left) <= by_hand
    assert by_hand <= {
        "registered-buffers-with-expandable-segments",
        "expandable-segments",
        "weight-shards-without-node-priority",
        "bridge-packed-attention-unpadded",
    }


RECIPE = """
from team.base import base_config

def pretrain(steps: int = 3):
    cfg = base_config()
    model = cfg.model
    model.cuda_graph_impl = "transformer_engine"
    model.cuda_graph_scope = [CudaGraphScope.attn, CudaGraphScope.moe_router]
    cfg.rng.te_rng_tracker = True
    return cfg
"""


def test_a_recipe_is_read_without_running_it(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    text = f"open({str(mark)!r}, 'w')\n{RECIPE}\nraise SystemExit(3)\n"
    report = examine(text, ".py", ["megatron-bridge==0.6.0"])
    assert [(rename.old, rename.new) for rename in report.renames] == [("model.cuda_graph_scope", "model.cuda_graph_modules")]
    assert not report.violations
    assert not mark.exists()
    assert any("num_moe_experts" in reason and "base_config()" in reason for reason in report.unread)


def test_what_is_set_in_a_way_that_is_not_followed_is_named() -> None:
    text = (
        RECIPE.replace('"transformer_engine"', "choose(steps)")
        + "\nclass A:\n    def f(self):\n        self.cuda_graph_impl = 1\n"
    )
    report = examine(text, ".py", ["megatron-bridge==0.4.2"])
    assert any("line 7" in reason or "choose()" in reason for reason in report.unread)
    assert any("line 14" in reason and "cuda_graph_impl" in reason for reason in report.unread)


def test_an_unknown_condition_is_taken_both_ways_and_a_known_default_one_way() -> None:
    text = """
def configure(cfg, full: bool = False):
    cfg.rng.te_rng_tracker = True
    cfg.model.cuda_graph_impl = "transformer_engine"
    if {condition}:
        cfg.model.cuda_graph_impl = "local"
    return cfg
"""
    both = examine(text.format(condition="torch.cuda.device_count() > 8"), ".py", ["megatron-bridge==0.6.0"])
    assert _ids(both) == set()
    assert any("under a condition that is not known it violates bridge-local-per-layer" in reason for reason in both.unread)
    assert _ids(examine(text.format(condition="full"), ".py", ["megatron-bridge==0.6.0"])) == set()
    asked = text.format(condition="os.environ.get('LOCAL')")
    assert _ids(examine(asked, ".py", ["megatron-bridge==0.6.0"])) == set()
    assert _ids(examine(asked, ".py", ["megatron-bridge==0.6.0"], {"LOCAL": "1"})) == {"bridge-local-per-layer"}


def test_files_of_the_same_tree_that_a_recipe_imports_from_are_followed(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team/base.py").write_text(
        "def base_config():\n    cfg = make()\n    cfg.rng.te_rng_tracker = True\n    return cfg\n"
    )
    recipe = tmp_path / "team/recipe.py"
    text = "from team.base import base_config\ndef build():\n    cfg = base_config()\n    cfg.model.cuda_graph_impl = 'local'\n"
    assert _ids(examine(text, ".py", ["megatron-bridge==0.4.2"])) == {"bridge-rng-tracker"}
    assert _ids(examine(text, ".py", ["megatron-bridge==0.4.2"], path=recipe)) == set()


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_of_any_style_is_read_as_the_packages_take_it(name: str) -> None:
    for release, ids in RECIPES[name]["finds"].items():
        report = examine(RECIPES[name]["text"], ".py", [f"megatron-bridge=={release}"], {}, 90)
        assert _ids(report) == set(ids), (release, report.unread)


def test_a_condition_that_only_raises_or_prints_is_not_taken_both_ways() -> None:
    text = """
import torch
def recipe(cfg):
    if torch.cuda.device_count() < 8:
        raise ValueError("too few")
    elif torch.cuda.is_available():
        print(cfg)
    cfg.model.cuda_graph_impl = "transformer_engine"
"""
    report = examine(text, ".py", ["megatron-bridge==0.6.0"])
    assert _ids(report) == {"bridge-rng-tracker"}
    assert len(report.setups) == 1


@pytest.mark.parametrize(
    "line", ["os.environ['X'] += 'a'", "a, *b = 1", "'a' * 10**9", "while True:\n    x = 1", "cfg.model.update([1])"]
)
def test_statements_that_would_fail_or_never_end_are_not_followed(line: str) -> None:
    text = f"cfg = base_config()\n{line}\ncfg.model.cuda_graph_impl = 'transformer_engine'\n"
    report = examine(text, ".py", ["megatron-bridge==0.6.0"])
    assert _ids(report) == {"bridge-rng-tracker"} or report.unread


def test_a_field_of_an_object_that_is_not_known_is_named() -> None:
    text = "def recipe(names):\n    for one in names[0]:\n        pass\n    names[1].cuda_graph_impl = 'local'\n"
    report = examine(text, ".py", ["megatron-bridge==0.6.0"])
    assert any("line 4" in reason and "not known" in reason for reason in report.unread)


@pytest.mark.parametrize(
    ("command", "ids"),
    [
        (
            "run_recipe.py --recipe r model.cuda_graph_impl=transformer_engine model.cuda_graph_scope=[attn]",
            "bridge-rng-tracker",
        ),
        ("run_recipe.py --recipe r model.cuda_graph_impl=transformer_engine rng.te_rng_tracker=true", ""),
        ("run_recipe.py ++model.cuda_graph_impl=local rng.te_rng_tracker=True", "bridge-local-per-layer"),
        ("run_script.py --cuda_graph_impl transformer_engine --cuda_graph_scope moe,moe_router", "moe-and-moe-router"),
        ("run_script.py -m qwen3 --cuda_graph_impl=local --cuda_graph_scope full_iteration -ng 8", ""),
        ("run_script.py -m qwen3 --cuda_graph_scope moe_preprocess", ""),
    ],
)
def test_overrides_of_a_recipe_on_the_command_line_are_read(command: str, ids: str) -> None:
    report = examine(f"python {command}", ".sh", ["megatron-bridge==0.6.0"], {}, 90)
    assert _ids(report) - {"moe-without-drop-and-pad"} == {ids} - {""}
    assert not report.renames or "--" not in report.renames[0].old
    assert any("recipe" in reason for reason in report.unread)


@pytest.mark.parametrize(("bridge", "core", "noted"), [("0.5.1", "0.18.2", False), ("0.4.2", "0.17.1", True)])
def test_a_field_of_a_model_of_bridge_is_none_of_megatron_core(bridge: str, core: str, noted: bool) -> None:
    text = "cfg = base()\ncfg.model.cuda_graph_impl = 'none'\ncfg.model.vision_cuda_graph_impl = 'transformer_engine'\n"
    report = examine(text, ".py", [f"megatron-bridge=={bridge}", f"megatron-core=={core}"])
    assert not report.violations
    assert any("vision_cuda_graph_impl is no field" in note for note in report.notes) == noted


def test_an_imported_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    text = "from base import config\n\ndef recipe():\n    cfg = config()\n    cfg.rng.te_rng_tracker = True\n    return cfg\n"
    (tmp_path / "recipe.py").write_text(text)
    base = tmp_path / "base.py"
    found = []
    for impl in ("transformer_engine", "te"):
        base.write_text(
            f"def config():\n    cfg = ConfigContainer()\n    cfg.model.cuda_graph_impl = {impl!r}\n    return cfg\n"
        )
        report = examine(text, ".py", ["megatron-bridge==0.4.2", "megatron-core==0.17.1"], path=tmp_path / "recipe.py")
        found.append({violation.id for violation in report.violations})
    assert found == [set(), {"graph-impl-unknown"}]


def test_a_loop_without_end_is_left_and_said() -> None:
    text = "def serve(config):\n    while True:\n        config.cuda_graph_impl = 'local'\n        poll(config)\n"
    report = examine(text, ".py", ["megatron-core==0.18.2"])
    assert any("was not followed" in reason for reason in report.unread)


def test_functions_loops_and_dicts_of_the_file_are_followed() -> None:
    text = """
GRAPHS = dict(cuda_graph_impl="local", cuda_graph_scope=["moe_preprocess"])
def _apply(model, values):
    for name, value in values.items():
        setattr(model, name, value)
    model.cuda_graph_scope.append("moe")
def build():
    model = TransformerConfig(num_layers=2, num_moe_experts=8)
    _apply(model, GRAPHS | {"cuda_graph_warmup_steps": 2})
    return model
"""
    assert "moe-and-moe-router" in _ids(examine(text, ".py", ["megatron-core==0.17.1"]))


def test_a_script_is_read_with_its_variables_arrays_and_environment() -> None:
    text = """#!/bin/bash
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
MODEL=(
  --num-experts 8   # all layers
  --cuda-graph-impl transformer_engine
  --cuda-graph-scope attn mlp
)
EXTRA="--recompute-granularity full"
torchrun ${DIST[@]} pretrain_gpt.py "${MODEL[@]}" $EXTRA
"""
    report = examine(text, ".sh", ["megatron-core==0.17.1"])
    assert _ids(report) == {"expandable-segments", "mlp-without-dense-layer", "full-recompute"}
    lines = {violation.id: violation.line for violation in report.violations}
    assert (lines["mlp-without-dense-layer"], lines["full-recompute"]) == (6, 8)
    assert any("DIST" in note for note in report.notes)  # the launcher's own
    fixed = correct(text, lambda new: examine(new, ".sh", ["megatron-core==0.17.1"]))
    assert "  --cuda-graph-scope attn --attention-dropout 0.0\n" in fixed.text
    assert "export NCCL_GRAPH_REGISTER=0 PYTORCH_CUDA_ALLOC_CONF" in fixed.text


@pytest.mark.parametrize(
    ("suffix", "text"),
    [
        (
            ".yaml",
            "MODEL_ARGS:\n  --cuda-graph-impl: local\n  --cuda-graph-scope: attn mlp\n  --num-experts: 8\n  --bf16: true\n",
        ),
        (
            ".yaml",
            "model:\n  num_moe_experts: 8\n  cuda_graph_impl: local\n  cuda_graph_scope: [attn, mlp]\n"
            "rng:\n  te_rng_tracker: true\n",
        ),
        (".json", '{"num_moe_experts": 8, "cuda_graph_impl": "local", "cuda_graph_scope": ["attn", "mlp"]}'),
        ("", "--num-experts 8 --cuda-graph-impl local --cuda-graph-scope attn mlp"),
    ],
)
def test_each_form_is_read_and_corrected(suffix: str, text: str) -> None:
    report = examine(text, suffix, ["megatron-core==0.16.1"])
    assert _ids(report) == {"mlp-without-dense-layer"}
    fixed = correct(text, lambda new: examine(new, suffix, ["megatron-core==0.16.1"]))
    assert fixed.text.replace("[attn]", "attn").replace('["attn"]', "attn") == text.replace("[attn, mlp]", "attn").replace(
        '["attn", "mlp"]', "attn"
    ).replace("attn mlp", "attn")


@pytest.mark.parametrize(
    ("text", "suffix", "wanted", "says"),
    [
        (
            "--cuda-graph-impl local",
            ".sh",
            ["megatron-core==9.9"],
            "megatron-core 9.9 is not a release that was read: those from",
        ),
        ("--cuda-graph-impl local", ".sh", ["torch==2.9"], "is not a package and its release"),
        ("--cuda-graph-impl local", ".sh", ["megatron-core==0.16.1", "megatron-core==0.18.2"], "leave one of them out"),
        ("model: !!python/object/apply:os.system ['id']", ".yaml", [], "would make an object when the document is loaded"),
        ("a: [1, 2", ".yaml", [], "no YAML that can be read"),
        ("{", ".json", [], "the JSON cannot be read"),
        ("def f(:\n", ".py", [], "line 1: the recipe is no Python that can be read"),
        ("hello: 1", ".py", [], "no setting of Megatron was found"),
        ("print('hello')", ".sh", [], "no setting of Megatron was found"),
        ("import sys\nfp16 = len(sys.argv) > 1\nif fp16:\n    print(1)\n", ".py", [], "no setting of Megatron was found"),
        ("--enable-cuda-grph", ".sh", [], "did you mean --enable-cuda-graph? Give a command with flags, a recipe"),
        ("cuda-graph-impl local", ".sh", [], "did you mean --cuda-graph-impl?"),
        ("x: 1\n" * 500_000, ".yaml", [], "characters; a configuration of up to"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(text: str, suffix: str, wanted: list[str], says: str) -> None:
    with pytest.raises(SkillError, match=re.escape(says)) as error:
        examine(text, suffix, wanted)
    assert str(error.value).startswith("skill config: ")
    assert "\n" not in str(error.value)


def test_aliases_of_aliases_end() -> None:
    levels = "".join(f"b{n}: &b{n} [{', '.join([f'*b{n - 1}'] * 10)}]\n" for n in range(1, 9))
    with pytest.raises(SkillError, match="aliases counted each time"):
        examine(f"b0: &b0 [x, x]\n{levels}", ".yaml")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--num-experts 8 --cuda-graph-impl local --cuda-graph-modules attn moe_router", True),
        ("--num-experts 8 --cuda-graph-impl transformer_engine --cuda-graph-modules attn moe_router", False),
        ("--cuda-graph-impl local --cuda-graph-modules attn", False),
    ],
)
def test_local_graphs_of_parts_of_experts_are_noted(words: str, said: bool) -> None:
    report = examine(f"python pretrain_gpt.py --te-rng-tracker {words}", ".sh", ["megatron-core==0.19.2"])
    assert any("only in HybridModel" in note for note in report.notes) == said


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("--transformer-impl local --cuda-graph-modules attn mlp", True),
        ("--transformer-impl local --cuda-graph-modules attn", False),
        ("--transformer-impl local --cuda-graph-modules attn mlp --num-experts 8 --moe-layer-freq [1,0]", True),
        ("--cuda-graph-modules attn mlp", False),  # its layers fuse this norm with the product behind it
    ],
)
def test_the_norm_before_a_dense_mlp_is_offloaded_inside_of_the_graph(words: str, found: bool) -> None:
    offload = "--fine-grained-activation-offloading --offload-modules mlp_norm --cuda-graph-impl transformer_engine"
    report = examine(f"python p.py {offload} {words}", ".sh", ["megatron-core==0.19.0", "transformer-engine==2.12"])
    assert ("activation-offload-in-graph-engine" in _ids(report)) == found


def test_a_flag_that_is_given_twice_is_noted_and_the_last_counts() -> None:
    report = examine("--cuda-graph-impl none --cuda-graph-impl local", ".sh", ["megatron-core==0.19.0"])
    assert any("set 2 times" in note for note in report.notes)
    assert not report.violations


def test_the_command_prints_json_and_exits_by_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("config", "--flags", "--enable-cuda-graph", "--for", "megatron-core==0.18.2", "--json")
    assert cli.main(arguments) == 1
    data = json.loads(capsys.readouterr().out)
    assert list(data)[:4] == ["violations", "renames", "notes", "unread"]
    assert data["renames"][0]["new"] == "--cuda-graph-impl local"
    assert cli.main(("config", "--flags", "--cuda-graph-impl local", "--for", "megatron-core==0.18.2")) == 0
    assert "nothing found, for megatron-core 0.18.2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("torchrun p.py \\\n    OLD \\\n    --bf16\n", ".sh"),
        ("torchrun p.py \\\n\tOLD \\\n\t--bf16\n", ".sh"),
        ("torchrun p.py --bf16 \\\n  --lr 1 \\\n  OLD", ".sh"),
        ("torchrun p.py --bf16 OLD --lr 1\n", ".sh"),
        ("ARGS=(\n    --bf16\n    OLD\n    --lr 1\n)\ntorchrun p.py ${ARGS[@]}\n", ".sh"),
        ('ARGS="\n    OLD\n    --bf16\n"\ntorchrun p.py $ARGS\n', ".sh"),
        ('ARGS="\\\n    OLD \\\n    --bf16 \\\n"\ntorchrun p.py $ARGS\n', ".sh"),
    ],
)
@pytest.mark.parametrize(
    ("old", "new"),
    [("--cuda-graph-scope attn", "--cuda-graph-modules attn"), ("--enable-cuda-graph", "--cuda-graph-impl local")],
)
def test_a_new_name_stands_where_the_old_one_stood(text: str, suffix: str, old: str, new: str) -> None:
    def check(script: str) -> Report:
        return examine(script, suffix, ["megatron-core==0.19.0"])

    assert correct(text.replace("OLD", old), check).text == text.replace("OLD", new)


def test_fix_writes_the_file_and_diff_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["skill"])
    file = tmp_path / "run.sh"
    before = "python p.py \\\n  --enable-cuda-graph \\\n  --cuda-graph-scope full_iteration \\\n  --bf16\n"
    file.write_text(before)
    arguments = ("config", "run.sh", "--for", "megatron-core==0.18.2")
    assert cli.main((*arguments, "--diff")) == 1
    said = capsys.readouterr().out
    assert "run.sh:2: violates nan-check-in-whole-iteration" in said
    assert "+  --cuda-graph-impl full_iteration" in said
    assert file.read_text() == before
    cli.main((*arguments, "--fix"))
    fixed = "  --cuda-graph-impl full_iteration --no-check-for-nan-in-loss-and-grad \\\n"
    assert file.read_text() == f"python p.py \\\n{fixed}  --bf16\n"
    assert cli.main(arguments) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "name one file, or give flags"),
        (("nothing.sh",), "cannot be read: No such file"),
        (("--flags", "--bf16", "--arch", "hopper"), "is no architecture"),
        (("--flags", "--bf16", "--env", "A"), "is no variable with a value"),
        (("--flags", "--enable-cuda-graph", "--for", "megatron-core==0.18.2", "--fix"), "--fix changes a file"),
    ],
)
def test_misuse_is_one_sentence(arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(("config", *arguments)) == 2
    assert says in capsys.readouterr().err


def test_the_mcp_tool_gives_findings_and_the_corrected_text() -> None:
    from cudagraph_skill_server.app import build
    from mcp import Client

    async def ask(**arguments: Any) -> Any:
        async with Client(build()) as client:
            return await client.call_tool("config", arguments)

    given = {"text": "--enable-cuda-graph --num-experts 8", "versions": ["megatron-core==0.18.2"]}
    result = asyncio.run(ask(**given))
    assert result.structured_content["renames"][0]["new"] == "--cuda-graph-impl local"
    assert "--cuda-graph-impl local" in result.structured_content["corrected"]
    refused = asyncio.run(ask(text="--bf16", versions=["torch==2.9"]))
    assert refused.is_error
    assert "is not a package and its release" in refused.content[0].text
