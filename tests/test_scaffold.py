"""Every program that `skill scaffold` offers is good Python, clean in our own check, and of names that torch has."""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
import time
from collections import Counter
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from cudagraph_skill import check
from cudagraph_skill.capture import interpreter
from cudagraph_skill.check.hazards import hazard
from cudagraph_skill.check.input.settings import Options as Settings
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import file as programs
from cudagraph_skill.scaffold import output, render, rules, versions
from cudagraph_skill.scaffold.options import OPTIONS, WORKFLOWS, Options, spelled
from cudagraph_skill.scaffold.versions import NEWEST, OLDEST
from user_files import module_of

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "tools/cudagraph_skill/scaffold/templates"
OFFERED = rules.offered()
PAIRWISE = module_of(ROOT / "benchmarks" / "pairwise.py")
RELEASES = [  # torch, Transformer Engine, Megatron-Core: the oldest, some between, the newest
    ["torch==2.4", "transformer-engine==2.1", "megatron-core==0.14"],
    ["torch==2.7", "transformer-engine==2.8", "megatron-core==0.16"],
    ["torch==2.11", "transformer-engine==2.9", "megatron-core==0.17"],
    ["torch==2.13", "transformer-engine==2.15", "megatron-core==0.18"],
    ["torch==2.15", "transformer-engine==2.20", "megatron-core==0.19"],
]
CHECKS = {"prepare", "batches", "parity", "rollback", "timing", "main"}
RULES = "E,F,W,I,B,UP,SIM,RUF,PT,RET,C4,ARG,PIE"
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; CI has it and fails without it")


def _name(options: Options) -> str:
    return re.sub(r"[ -]+", "_", spelled(options).replace("--workflow ", "")) + ".py"


def _write(folder: Path, wanted: list[str], programs: list[Options]) -> list[Path]:
    """Write programs for these versions."""
    releases = versions.choose(wanted, {})
    paths = []
    for options in programs:
        if render.refused(options, releases):
            continue
        paths.append(folder / _name(options))
        paths[-1].write_text(render.program(options, releases, paths[-1].name))
    return paths


@pytest.fixture(scope="module", params=["each pair of options", pytest.param("the others", marks=pytest.mark.slow)])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Render programs for the installed torch."""
    pairs = PAIRWISE.covering(OFFERED)
    programs = pairs if request.param == "each pair of options" else [options for options in OFFERED if options not in pairs]
    wanted = f"torch=={version('torch')}" if find_spec("torch") else "torch==2.13"
    return _write(tmp_path_factory.mktemp("programs"), [wanted], programs)


def _every(most: int = len(Options._fields)) -> list[Options]:
    """Return all combinations of at most so many options, also those that clash."""
    values = {name: option.values for name, option in OPTIONS.items()} | {"accumulate": (0, 1, 4)}
    every = itertools.product(WORKFLOWS, *values.values())
    return [Options(*given) for given in every if sum(map(bool, given[1:])) <= most]


# What is offered -------------------------------------------------------------------------------------------------------


def test_every_workflow_of_skill_md_has_programs_under_its_number() -> None:
    headings = re.findall(r"^## Workflow (\d): ", (ROOT / "SKILL.md").read_text(), re.MULTILINE)
    assert [str(workflow.number) for workflow in WORKFLOWS.values()] == headings
    assert set(Counter(options.workflow for options in OFFERED)) == set(WORKFLOWS)


def test_every_option_is_offered_somewhere() -> None:
    assert {name for options in OFFERED for name, value in options._asdict().items() if value} == set(Options._fields)


def test_every_template_is_used_by_some_program_or_template() -> None:
    used = {"header.py.jinja"}.union(*(render.templates(options) for options in OFFERED))
    for path in TEMPLATES.iterdir():
        used |= set(re.findall(r'include "([\w.]+)"', path.read_text()))
    assert used == {path.name for path in TEMPLATES.iterdir()}


@pytest.mark.parametrize("most", [3, pytest.param(len(OPTIONS), marks=pytest.mark.slow)])
def test_what_is_refused_names_a_reason_and_the_nearest_that_is_offered(most: int) -> None:
    offered = set(OFFERED)
    for options in _every(most):
        if options in offered:
            assert rules.checked(options) == options
            continue
        near = rules.nearest(options)
        assert near in offered, options
        with pytest.raises(SkillError) as raised:
            rules.checked(options)
        reason, _, command = str(raised.value).rpartition("; nearest: ")
        assert command == f"`skill scaffold {spelled(near)}`"
        assert any(rule.reason in reason for rule in rules.RULES)


def test_every_rule_refuses_something_that_no_other_rule_does_first() -> None:
    first = {next((rule.reason for rule in rules.RULES if rule.clash(options)), "") for options in _every()}
    assert {rule.reason for rule in rules.RULES} <= first


# What they are like ----------------------------------------------------------------------------------------------------


def test_the_releases_of_these_tests_reach_from_the_oldest_to_the_newest() -> None:
    assert (versions.choose(RELEASES[0], {}), versions.choose(RELEASES[-1], {})) == (OLDEST, NEWEST)


@pytest.mark.slow
@pytest.mark.parametrize("releases", RELEASES, ids=" ".join)
def test_programs_are_python_3_10_and_leave_no_trace_of_the_template(releases: list[str], tmp_path: Path) -> None:
    release = releases[0].removeprefix("torch==")
    for path in _write(tmp_path, releases, OFFERED):
        text = path.read_text()
        tree = ast.parse(text, feature_version=(3, 10))
        assert not re.search(r"[«»]|^\s*#:|\{\{|\{%", text, re.MULTILINE), path.name
        assert f"torch {release}" in (ast.get_docstring(tree) or ""), path.name
        assert path.name in (ast.get_docstring(tree) or ""), path.name
        assert text.endswith("\n")
        assert not text.endswith("\n\n")


def test_programs_have_what_the_verifier_calls_and_say_what_is_the_users(written: list[Path]) -> None:
    for path in written:
        text = path.read_text()
        names = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        assert names >= CHECKS, path.name
        assert "YOURS" in text, path.name
        assert text.rstrip().endswith('if __name__ == "__main__":\n    main()'), path.name


@pytest.mark.slow
def test_programs_are_clean_in_our_own_check(written: list[Path]) -> None:
    report = check.check_paths([str(path) for path in written], Settings())
    serious = [
        f"{Path(finding.path).name}:{finding.line} {finding.id}"
        for finding in report.findings
        if hazard(finding.id).severity != "info"
    ]
    assert serious == []
    unread = [note for note in report.notes if "read in part" not in note]  # a program runs its checks, token by token some
    assert unread == []
    captured = {Path(region.path) for region in report.regions}
    assert {path.name for path in written if "torch.cuda.graph(" in path.read_text() and path not in captured} == set()


@pytest.mark.slow
@pytest.mark.parametrize("releases", RELEASES, ids=" ".join)
def test_programs_are_formatted_and_lint_clean(releases: list[str], tmp_path: Path) -> None:
    _write(tmp_path, releases, OFFERED)
    ruff = [sys.executable, "-m", "ruff"]
    own = ["--isolated", "--no-cache", "--line-length", "120", "--target-version", "py310"]
    for command in (["check", "--select", RULES, "--output-format", "concise"], ["format", "--diff"]):
        done = subprocess.run([*ruff, *command, *own, str(tmp_path)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[:4000] + done.stderr[-1000:]


def test_equal_programs_are_equal_in_every_run() -> None:
    releases = versions.choose(["torch==2.11"], {})
    options = Options("manual", training=True, amp="bf16")
    assert render.program(options, releases) == render.program(options, releases)


_USES = """
import ast, importlib, pathlib, sys
names, files = set(), sorted(pathlib.Path(sys.argv[1]).glob("*.py"))
for path in files:
    tree = ast.parse(path.read_text())
    roots = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names_of = ((each.asname, each.name) for each in node.names)
            roots |= {short or name.partition(".")[0]: name if short else name.partition(".")[0] for short, name in names_of}
        if isinstance(node, ast.ImportFrom) and node.module != "__future__":
            roots |= {each.asname or each.name: f"{node.module}:{each.name}" for each in node.names}
    if any(origin.partition(".")[0].partition(":")[0] in ("transformer_engine", "megatron") for origin in roots.values()):
        continue
    for node in ast.walk(tree):
        chain, inner = [], node
        while isinstance(inner, ast.Attribute):
            chain.insert(0, inner.attr)
            inner = inner.value
        if isinstance(inner, ast.Name) and inner.id in roots:
            names.add((roots[inner.id], *chain))
    exec(compile(tree, str(path), "exec"), {"__name__": path.stem})
for root, *chain in sorted(names):
    module, _, name = root.partition(":")
    found = importlib.import_module(module)
    for each in [name] * bool(name) + chain:
        if not hasattr(found, each) and isinstance(found, type(sys)):
            importlib.import_module(f"{found.__name__}.{each}")
        if not isinstance(found, (type(sys), type)):
            break
        found = getattr(found, each)
print(len(files), len(names))
"""


@needs_torch
@pytest.mark.slow
def test_names_that_programs_use_exist_in_torch(written: list[Path]) -> None:
    command = [sys.executable, "-c", _USES, str(written[0].parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    files, names = map(int, done.stdout.split()[-2:])
    assert files == len(written)
    assert names > 50


# Versions --------------------------------------------------------------------------------------------------------------


def test_what_changed_between_releases_changes_the_program() -> None:
    fsdp, rng = Options("manual", training=True, fsdp=True), Options("manual", training=True, rng=True)
    old, new = (render.program(fsdp, versions.choose([f"torch=={release}"], {})) for release in ("2.5", "2.6"))
    assert "from torch.distributed._composable.fsdp import FSDPModule, fully_shard" in old
    assert "from torch.distributed.fsdp import FSDPModule, fully_shard" in new
    registers, finds = (render.program(rng, versions.choose([f"torch=={release}"], {})) for release in ("2.13", "2.14"))
    assert "self.graph.register_generator_state(self.generator)" in registers
    assert "register_generator_state" not in finds


@pytest.mark.parametrize(
    ("wanted", "have", "torch"),
    [
        ([], {}, NEWEST.torch),
        ([], {"torch": "2.11.0+cu130"}, (2, 11)),
        ([], {"torch": "2.12.0.dev20260101"}, (2, 12)),
        (["torch==2.6"], {"torch": "2.11.0"}, (2, 6)),
        (["Torch = v2.6.1", "megatron-core==0.17"], {"torch": "2.99"}, (2, 6)),
    ],
)
def test_wanted_releases_come_before_installed_before_the_newest(wanted: list[str], have: dict[str, str], torch: Any) -> None:
    assert versions.choose(wanted, have).torch == torch


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("torch==3.1", "nearest: `--for torch==2.15`"),
        ("torch==1.13", "nearest: `--for torch==2.4`"),
        ("megatron-core==0.9", "nearest: `--for megatron-core==0.14`"),
        ("transformer_engine==1.13", "nearest: `--for transformer-engine==2.1`"),
        ("torch", "it names no release; write one release of one package, such as torch==2.6"),
        ("torch>=2.6", "`>=` does not select a single release"),
        ("torch==9", "`9` is not a release with a major and a minor number"),
        ("torch==2.6;megatron-core==0.15", "`2.6;megatron-core==0.15` is not a release"),
        ("torch==2.6 megatron-core==0.15", "write one release of one package"),
        ("torch==" + "1" * 5000 + ".1", "is not a release"),
        ("numpy==2.0", "the packages are torch, transformer-engine, megatron-core"),
        ("", "the packages are torch"),
    ],
)
def test_releases_that_are_not_known_are_refused_with_the_nearest(wanted: str, says: str) -> None:
    with pytest.raises(SkillError, match=re.escape(says)) as raised:
        versions.choose([wanted], {})
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("text", ["2.6", "2.6.1", "2.6.*", "2.6.0a0+7c8ec84.nv25.03", "2.6.0.dev20260101"])
def test_a_release_may_be_written_as_packages_write_theirs(text: str) -> None:
    assert versions.choose([f"torch=={text}"], {}).torch == (2, 6)


@pytest.mark.parametrize(
    ("core", "engine", "near"), [("0.18", "2.5", "2.6"), ("0.15", "2.15", "2.17"), ("0.14", "2.16", "2.17")]
)
def test_releases_that_do_not_work_together_are_refused_where_it_matters(core: str, engine: str, near: str) -> None:
    given = versions.choose([f"megatron-core=={core}", f"transformer-engine=={engine}"], {})
    per_layer = Options("mcore-per-layer", training=True, fp8=True)
    with pytest.raises(SkillError, match=f"nearest: `--for transformer-engine=={near}`"):
        render.program(per_layer, given)
    for other in (per_layer._replace(fp8=False), per_layer._replace(workflow="mcore-full-iteration")):
        assert render.program(other, given)
    render.program(per_layer, given._replace(transformer_engine=versions.choose([f"transformer-engine=={near}"], {})[1]))


@pytest.mark.parametrize("core", ["0.16", "0.17"])
def test_releases_whose_gradients_are_wrong_are_refused(core: str) -> None:
    given = versions.choose([f"megatron-core=={core}"], {})
    for fp8 in (False, True):
        with pytest.raises(SkillError, match=r"wrong gradients .* nearest: `--for megatron-core==0\.18`"):
            render.program(Options("mcore-per-layer", training=True, fp8=fp8), given)
    assert render.program(Options("mcore-full-iteration", training=True), given)


@pytest.mark.parametrize(("core", "fp8", "kept"), [("0.19", False, True), ("0.19", True, False), ("0.18", False, False)])
def test_local_graphs_keep_the_inputs_of_norms_of_torch(core: str, fp8: bool, kept: bool) -> None:
    made = programs.write(Options("mcore-per-layer", training=True, fp8=fp8), ["torch==2.11", f"megatron-core=={core}"], "")
    assert ("\ncuda_graphs.HAVE_TE_GRAPHS = False" in made.text) == kept


def test_two_releases_of_a_package_are_refused() -> None:
    with pytest.raises(SkillError, match=r"`--for` asks for torch 2\.6 and 2\.9"):
        versions.choose(["torch==2.6", "torch==2.9"], {})
    assert versions.choose(["torch==2.6", "torch==2.6.1"], {}).torch == (2, 6)


def test_a_version_that_a_program_does_not_use_is_told_and_not_repeated() -> None:
    made = programs.write(Options("manual"), ["torch==2.6", "transformer_engine==2.3"], "")
    assert made.unused == ("transformer_engine==2.3",)
    assert made.command == "--workflow manual --for torch==2.6"
    assert output.notes(made)[-1] == "left aside, since this program does not use it: transformer_engine==2.3"
    layers = programs.write(Options("mcore-per-layer", training=True), ["torch==2.11", "megatron-core==0.18"], "")
    assert layers.unused == ()


def _interpreter(folder: Path, prints: str) -> str:
    """Write a script that answers as an interpreter does."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{prints}\n")
    path.chmod(0o755)
    return str(path)


def test_releases_are_read_from_the_interpreter_without_importing_them(tmp_path: Path) -> None:
    packages = versions.installed(sys.executable)
    assert packages.get("torch", "") == (version("torch") if find_spec("torch") else "")
    (tmp_path / "json.py").write_text("raise SystemExit('a module of the user')")
    done = subprocess.run(
        [sys.executable, "-c", f"from cudagraph_skill.scaffold import versions; print(versions.installed({sys.executable!r}))"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT / "tools"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 1", "reported no torch"),
        ("echo [1]", "reported no torch"),
        ("echo no; echo boom >&2", "boom"),
        (None, "No such file"),
    ],
)
def test_an_interpreter_that_does_not_answer_is_one_sentence(script: str | None, says: str, tmp_path: Path) -> None:
    python = _interpreter(tmp_path, script) if script else str(tmp_path / "gone")
    with pytest.raises(SkillError, match=says) as raised:
        versions.installed(python)
    assert raised.value.exit_code == 3
    with pytest.raises(SkillError):
        programs.write(Options("manual", training=True), [], python)


@pytest.mark.parametrize(
    ("python", "says"),
    [
        ("gone", "there is no such program on the PATH"),
        ("script.py", "there is no such program on the PATH"),
        ("folder", "that is a folder"),
        ("./folder", "that is a folder"),
        ("./script.py", "Permission denied"),
        ("~no-such-user/python", "No such file"),
        ("/bin/ls", "reported no torch version"),
    ],
)
def test_what_is_no_interpreter_is_called_what_it_is(
    python: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("script.py").write_text("x = 1\n")
    with pytest.raises(SkillError, match=says) as raised:
        versions.installed(python)
    assert raised.value.exit_code == 3
    assert "import" not in str(raised.value)  # our own question


def test_an_interpreter_that_hangs_is_left_behind_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "DEADLINE", 0.5)
    python = _interpreter(tmp_path, f"sleep 1000 &\necho $! > {tmp_path}/pid\nwait")
    with pytest.raises(SkillError, match="reported no torch version within"):
        versions.installed(python)
    status = Path("/proc", (tmp_path / "pid").read_text().strip(), "status")
    end = time.monotonic() + 10  # a killed process is gone once it has its turn
    while _lives(status) and time.monotonic() < end:
        time.sleep(0.01)
    assert not _lives(status)


def _lives(status: Path) -> bool:
    try:
        return "zombie" not in status.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_program_says_how_its_versions_were_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    have = {"torch": "2.11.0+cu130", "transformer_engine": "1.13.0", "megatron_core": "0.18.2"}
    python = _interpreter(tmp_path, f"echo '{json.dumps(have)}'")
    plain = programs.write(Options("manual", training=True), [], python)  # an old Transformer Engine is of no concern to it
    assert plain.versions == {"torch": "2.11"}
    assert plain.written_for == f"torch 2.11 (as installed in {python})"
    with pytest.raises(SkillError, match="nearest: `--for transformer-engine==2"):
        programs.write(Options("transformer-engine", training=True), [], python)
    layers = Options("mcore-per-layer", training=True)
    assert programs.write(layers, [], python).written_for == f"torch 2.11 and megatron-core 0.18 (as installed in {python})"
    with pytest.raises(SkillError, match="nearest: `--for transformer-engine==2"):
        programs.write(layers._replace(fp8=True), [], python)
    monkeypatch.setattr(interpreter, "environment_python", lambda: str(tmp_path / "gone"))
    nothing = programs.write(Options("manual", training=True), [], "")
    assert nothing.versions == {"torch": "{}.{}".format(*NEWEST.torch)}
    assert "the newest supported" in nothing.written_for
    assert "as `--for` says" in programs.write(Options("manual", training=True), ["torch==2.6"], "/nowhere/python").written_for


# Asking and writing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ("manual", "manual"),
        (" Manual ", "manual"),
        ("7", "manual"),
        ("torch.cuda.graph", "manual"),
        ("torch.cuda.make_graphed_callables", "make-graphed-callables"),
        ("make_graphed_callables", "make-graphed-callables"),
        ("mgc", "make-graphed-callables"),
        ("torch.compile", "reduce-overhead"),
        ("TE", "transformer-engine"),
        ("transformer_engine", "transformer-engine"),
        ("full_iteration", "mcore-full-iteration"),
    ],
)
def test_a_workflow_has_the_names_that_people_use(typed: str, means: str) -> None:
    assert programs.workflow(typed) == means


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("manul", "nearest: `--workflow manual`"),
        ("megatron", "`--workflow mcore-per-layer` or `--workflow mcore-full-iteration`"),
        ("reduce_overheads", "nearest: `--workflow reduce-overhead`"),
        ("9", "`skill scaffold` describes each"),
        ("", "there are profile, "),
        ("x" * 10**5, "…"),
    ],
)
def test_an_unknown_workflow_is_refused_with_the_nearest(typed: str, says: str) -> None:
    with pytest.raises(SkillError, match=re.escape(says)) as raised:
        programs.workflow(typed)
    assert len(str(raised.value)) < 400


def test_a_file_is_written_whole_and_only_replaced_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "step.py"
    programs.save("one\n", str(path))
    assert path.read_text() == "one\n"
    with pytest.raises(SkillError, match="add `--force`"):
        programs.save("two\n", str(path))
    assert path.read_text() == "one\n"
    path.chmod(0o640)
    (tmp_path / "link.py").symlink_to(path)
    programs.save("two\n", str(tmp_path / "link.py"), force=True)
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("two\n", 0o640)
    assert (tmp_path / "link.py").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"step.py", "link.py"}


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("", "a file is needed"),
        (".", "a file is needed"),
        ("step.txt", "ends in .py; for example `--into step.py`"),
        ("step", "ends in .py; for example `--into step.py`"),
        ("-step.ipynb", "for example `--into ./-step.py`"),
        ("torch.py", "in place of the module torch"),
        ("profile.py", "in place of the module profile"),
        ("nowhere/step.py", "make it first, `mkdir -p nowhere`"),
        ("there.py", "add `--force`"),
        ("there.py/step.py", "is no folder"),
        ("dangling.py", "add `--force`"),
        ("x" * 300 + ".py", "too long"),
        ("a\0b.py", "null"),
    ],
)
def test_a_place_where_nothing_may_be_written_is_one_sentence(
    file: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.py").write_text("mine\n")
    Path("dangling.py").symlink_to("nowhere")
    with pytest.raises(SkillError, match=says) as raised:
        programs.writable(file, force=False)
    assert raised.value.exit_code == 2
    assert Path("there.py").read_text() == "mine\n"


def test_nothing_but_files_is_replaced(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "pipe.py")
    for target in (tmp_path / "pipe.py", Path("/dev/null"), tmp_path):
        with pytest.raises(SkillError):
            programs.writable(str(target), force=True)


@pytest.mark.parametrize("file", ['a"""b.py', "a\nb.py", "a\\b.py", "x" * 200 + ".py", "«a».py", "a b.py"])
def test_no_name_of_a_file_breaks_the_program(file: str) -> None:
    text = programs.write(Options("manual", training=True), ["torch==2.11"], "", file).text
    assert "python FILE\n" in text
    ast.parse(text)


@pytest.mark.slow
def test_a_program_says_how_many_processes_it_is_for() -> None:
    for options in OFFERED:
        text = render.program(options, NEWEST)
        assert programs.processes(text) == (2 if options.ddp or options.fsdp else 1), options
    assert programs.processes("torchrun --nproc-per-node 4 train.py\ndist.init_process_group()") == 4
    assert programs.processes("dist.init_process_group()") == 2


def test_refusals_need_no_template_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    environment: Callable[[], object] = render._environment.__wrapped__
    monkeypatch.setattr(render, "_environment", environment)
    with pytest.raises(SkillError, match="nearest"):
        rules.checked(Options("manual", ddp=True))
    with pytest.raises(SkillError, match="pip install jinja2") as raised:
        render.program(Options("manual", training=True), NEWEST)
    assert raised.value.exit_code == 3


@pytest.mark.parametrize("length", [2_000, 20_000])
def test_a_full_disk_leaves_no_file(tmp_path: Path, length: int) -> None:
    code = (
        "import resource, signal, sys\n"
        "from cudagraph_skill.errors import SkillError; from cudagraph_skill.scaffold import file\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try: file.save('x' * int(sys.argv[1]), 'step.py')\n"
        "except SkillError as error: sys.exit(error.exit_code)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(length)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    assert list(tmp_path.iterdir()) == []
