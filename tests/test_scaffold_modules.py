"""A program of `skill scaffold --module` is a short module to keep, and a file that checks it."""

from __future__ import annotations

import ast
import subprocess
import sys
import types
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from cudagraph_skill import check
from cudagraph_skill.check.hazards import hazard
from cudagraph_skill.check.input.settings import Options as Settings
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import file as programs
from cudagraph_skill.scaffold import imports, render, rules, versions
from cudagraph_skill.scaffold.options import PLAIN, WORKFLOWS, Options, spelled
from cudagraph_skill.scaffold.versions import NEWEST, OLDEST
from user_files import module_of

ROOT = Path(__file__).resolve().parent.parent
MODULES = [options for options in rules.offered() if options.workflow in PLAIN]
RELEASE = versions.choose(["torch==2.11"], {})
PAIRWISE = module_of(ROOT / "benchmarks" / "pairwise.py")
RULES = "E,F,W,I,B,UP,SIM,RUF,PT,RET,C4,ARG,PIE,D205,D401,D419"
LINES = 120
pytestmark = pytest.mark.slow
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; CI has it and fails without it")


def _name(options: Options) -> str:
    return spelled(options).replace("--workflow ", "").replace(" --", "_").replace("-", "_").replace(" ", "_")


@pytest.fixture(scope="module", params=[OLDEST, RELEASE, NEWEST], ids=lambda release: f"torch {release.torch[1]}")
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Write every module with its checks, and return the modules."""
    folder, paths = tmp_path_factory.mktemp("modules"), []
    for number, options in enumerate(MODULES):
        paths.append(folder / f"m{number}.py")
        module, checks = render.module(options, request.param, paths[-1].name)
        paths[-1].write_text(module)
        Path(render.checks_file(str(paths[-1]))).write_text(checks)
    return paths


CPU = (
    ('"cuda"', '"cpu"'),
    (".cuda(non_blocking=True)", ""),
    (".cuda()", ""),
    (", capturable=True", ""),
    (", pin_memory=True", ""),
    *((f"torch.cuda.{name}", f"torch.{name}") for name in ("get_rng_state", "set_rng_state")),
    *((f"torch.cuda.{name}", f"torch.cpu.{name}") for name in ("Stream", "stream", "current_stream", "synchronize")),
)


def on_cpu(options: Options, edit: tuple[str, str] = ("", "")) -> Any:
    """Return a program that works on the CPU as it would on a GPU, apart from graphs."""
    text = render.program(options, NEWEST)
    for old, new in (edit, *CPU):
        text = text.replace(old, new)
    module = types.ModuleType("step")
    exec(compile(text, "step.py", "exec"), module.__dict__)
    return module


# What they are like ----------------------------------------------------------------------------------------------------


def test_modules_are_short_and_have_what_the_checks_import(written: list[Path]) -> None:
    for path in written:
        text = path.read_text()
        assert text.count("\n") <= LINES, path.name
        assert "YOURS" in text, path.name
        defined = imports.defined(text)
        checks = ast.parse(Path(render.checks_file(str(path))).read_text(), feature_version=(3, 10))
        taken = [node for node in ast.walk(checks) if isinstance(node, ast.ImportFrom) and node.module == path.stem]
        assert taken, path.name
        assert {name.name for node in taken for name in node.names} <= defined, path.name
        assert not {"prepare", "batches", "main", "parity"} & defined, path.name


def test_modules_are_formatted_lint_clean_and_in_the_imperative(written: list[Path]) -> None:
    """Imports that nothing uses, docstrings such as `Returns the …`, and lines over 120 columns would be found."""
    own = ["--isolated", "--no-cache", "--line-length", str(LINES), "--target-version", "py310"]
    for command in (["check", "--select", RULES, "--output-format", "concise"], ["format", "--diff"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, *own, "."],
            cwd=written[0].parent,  # where `from step import` is of the user's own
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[:4000] + done.stderr[-1000:]


def test_no_argument_chooses_a_way_by_its_name(written: list[Path]) -> None:
    for path in written:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.arg) and node.annotation:
                assert (node.arg == "mode") == (ast.unparse(node.annotation) in {"str", "str | None"}), path.name


def test_one_file_has_the_lines_of_both() -> None:
    """A receipt is of the two files, and so of the program in one."""
    for options in MODULES:
        module, checks = (_below_imports(text) for text in render.module(options, RELEASE))
        whole = _below_imports(render.program(options, RELEASE))
        assert whole.replace(render._RULER, "").split() == [*module.split(), *checks.split()], options


def _below_imports(text: str) -> str:
    """Return a program from its first line that is no docstring and no import."""
    first = next(node for node in ast.parse(text).body[1:] if not isinstance(node, ast.Import | ast.ImportFrom))
    return "\n".join(line for line in text.split("\n")[first.lineno - 1 :] if line)


def test_modules_have_no_hazard_that_our_own_check_finds(tmp_path: Path) -> None:
    paths = []
    for options in MODULES:
        paths.append(tmp_path / f"{_name(options)}.py")
        paths[-1].write_text(render.module(options, RELEASE, paths[-1].name)[0])
    report = check.check_paths(list(map(str, paths)), Settings())
    assert [finding for finding in report.findings if hazard(finding.id).severity != "info"] == []
    captured = {Path(region.path).name for region in report.regions}
    assert {path.name for path in paths if "torch.cuda.graph(" in path.read_text()} <= captured


@needs_torch
def test_checks_import_cleanly(tmp_path: Path) -> None:
    for options in PAIRWISE.covering(MODULES):
        for text, name in zip(render.module(options, NEWEST, f"{_name(options)}.py"), ("", "check_"), strict=True):
            (tmp_path / f"{name}{_name(options)}.py").write_text(text)
    code = "import pathlib, importlib; [importlib.import_module(p.stem) for p in pathlib.Path().glob('check_*.py')]"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_checks_say_what_they_allow_and_report_it() -> None:
    for options in MODULES:
        checks = render.module(options, RELEASE)[1]
        assert "unit in the last place" in checks, options
        assert "3 * (spread + sensitivity)" in checks, options
        assert all(f'"{key}":' in checks for key in ("steps", "without_graph_twice", "graph", "sensitivity", "bit_equal"))
        assert ("def resume()" in checks) == options.training


@needs_torch
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("dim", [0, 1])
def test_a_compiled_model_is_compiled_once_for_all_buckets(dim: int) -> None:
    import torch

    module = on_cpu(Options("manual-over-compile", buckets=True), ("DIM = 0", f"DIM = {dim}"))
    compilations = []

    def backend(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Any:
        compilations.append(graph)
        return graph.forward

    inference = module.Inference()
    inference.forward = torch.compile(inference.model, backend=backend)
    inference.allocate(torch.randn(*[2] * dim, 3, 64))
    for size in (64, 1, 20, 9):  # the largest bucket is as long as the last dimension, which is fixed
        inference(torch.randn(*[2] * dim, size, 64))
    assert len(compilations) == 1


# What they do ----------------------------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("amp", ["", "fp16"])
def test_a_checkpoint_is_loaded_into_the_tensors_that_a_graph_uses(amp: str) -> None:
    import torch

    module = on_cpu(Options("manual", training=True, amp=amp), ("1e-3 * min(1.0, (step + 1) / 10)", "0.01"))
    generator = torch.Generator().manual_seed(0)
    batches = [(torch.randn(8, 64, generator=generator), torch.randint(10, (8,), generator=generator)) for _ in range(6)]
    training = module.Training()
    for batch in batches[:2]:
        training(*batch)
    saved = {name: _copied(value) for name, value in training.state_dict().items()}
    tensors = _tensors(training)
    before = [tensor.clone() for tensor in tensors]
    for batch in batches[2:4]:
        training(*batch)
    assert not all(map(torch.equal, tensors, before))
    saved["optimizer"]["param_groups"][0] |= {"fused": None, "lr": 1.0}  # of a training that was not made for graphs
    training.load_state_dict(saved)
    assert training.optimizer.param_groups[0]["fused"]
    assert all(map(torch.equal, tensors, before))
    assert all(one is other for one, other in zip(tensors, _tensors(training), strict=True))
    assert training.optimizer.param_groups[0]["lr"] is training.lr
    other = module.Training()  # which has no state of its own yet
    other.load_state_dict(saved)
    assert other.steps == training.steps == 2
    losses = []
    for each in (training, other):
        torch.manual_seed(0)
        losses.append([each(*batch).item() for batch in batches[4:]])
    assert losses[0] == losses[1]


def _copied(value: Any) -> Any:
    import copy

    return copy.deepcopy(value)


def _tensors(training: Any) -> list[Any]:
    state = training.optimizer.state
    return [*training.model.parameters(), *(state[p][name] for p in training.model.parameters() for name in sorted(state[p]))]


@needs_torch
@pytest.mark.parametrize("dim", [0, 1])
def test_padding_leaves_the_real_part_as_it_is(dim: int) -> None:
    import torch

    module = on_cpu(Options("manual", buckets=True), ("DIM = 0", f"DIM = {dim}"))
    inference = module.Inference()
    inference.allocate(torch.randn(*[2] * dim, 3, 64))
    for size in (1, 8, 9, 64, 65):
        x = torch.randn(*[2] * dim, size, 64)
        torch.testing.assert_close(inference(x), inference.model(x))
        assert inference(x).shape == inference.model(x).shape
    bucket = inference.inputs[16]
    assert bucket.narrow(dim, 9, 7).abs().max() == 0


@needs_torch
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("way", ["manual", "reduce-overhead"])
def test_buffers_that_no_checkpoint_has_are_as_before_the_warm_up(way: str) -> None:
    import torch

    counted = []

    def count(model: Any, _: object) -> None:
        counted.append(model.steps.add_(1))

    def build_model() -> Any:
        model = torch.nn.Linear(64, 10)
        model.register_buffer("steps", torch.zeros(()), persistent=False)
        model.register_forward_pre_hook(count)
        return model

    module = on_cpu(Options(way, training=True), ("self.graph = torch.cuda.CUDAGraph()", "return"))
    module.build_model = build_model
    if way == "manual":
        training = module.Training()
        training.capture(*module.batches(1)[0])
    else:
        training = module.Training(None)
        module.record(training)
    assert len(counted) == 3
    assert training.model.steps == 0


@needs_torch
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize(
    ("options", "dtype"),
    [
        (Options("manual"), "float32"),
        (Options("manual", training=True, amp="bf16"), "float32"),
        (Options("make-graphed-callables", training=True, amp="fp16"), "float32"),
        (Options("reduce-overhead", training=True), "float32"),
        (Options("reduce-overhead", training=True, amp="bf16"), "bfloat16"),
        (Options("manual-over-compile", amp="fp16"), "float16"),
    ],
    ids=lambda value: value if isinstance(value, str) else _name(value),
)
def test_a_perturbation_moves_each_weight_by_a_unit_in_the_last_place(options: Options, dtype: str) -> None:
    """Of the weight's type; of a compiled program under autocast that of autocast."""
    import torch

    torch.manual_seed(1)  # not the seed of the moves
    model, unit = torch.nn.Linear(64, 64), torch.finfo(getattr(torch, dtype)).eps
    before = model.weight.detach().clone()
    on_cpu(options).perturb(model)
    relative = (model.weight.detach() - before).abs() / before.abs()
    assert unit / 4 < relative.min()
    assert relative.max() < 2 * unit
    assert 0.4 < (model.weight > before).float().mean() < 0.6


# Writing ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workflow", [workflow for workflow in WORKFLOWS if workflow not in PLAIN])
def test_programs_that_do_not_divide_are_refused_with_the_nearest(workflow: str) -> None:
    options = Options(workflow, training=True)
    near = "`skill scaffold --workflow manual-over-compile --training --module`"
    with pytest.raises(SkillError) as raised:
        render.module(options, RELEASE)
    assert str(raised.value).endswith(f"nearest: {near if workflow == 'profile' else 'leave out `--module`'}")


def test_both_files_are_written_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = programs.write(Options("manual"), ["torch==2.11"], "", "step.py", module=True)
    assert program.command == "--workflow manual --for torch==2.11 --module"
    there = tmp_path / "check_step.py"
    there.write_text("mine\n")
    with pytest.raises(SkillError, match=r"check_step\.py`: it is there already"):
        programs.save_program(program, "step.py")
    assert [path.name for path in tmp_path.iterdir()] == ["check_step.py"]
    assert there.read_text() == "mine\n"
    programs.save_program(program, "step.py", force=True)
    assert (there.read_text(), (tmp_path / "step.py").read_text()) == (program.checks, program.text)


@pytest.mark.parametrize("name", ["a-b.py", "a b.py", "class.py", "1.py"])
def test_a_module_has_a_name_that_can_be_imported(name: str, tmp_path: Path) -> None:
    with pytest.raises(SkillError, match="is no name of a module; for example `--into"):
        programs.writable_module(str(tmp_path / name), force=False)


@pytest.mark.parametrize("folder", ["a b", "x" * 70, "."])
def test_the_checks_import_the_module_whatever_its_folder(folder: str) -> None:
    program = programs.write(Options("manual"), ["torch==2.11"], "", f"{folder}/mine.py", module=True)
    assert "\nfrom mine import Inference\n" in program.checks
    ast.parse(program.checks)


def test_buckets_share_a_pool_whether_asked_or_not() -> None:
    asked = programs.options({"workflow": "manual", "buckets": True, "pool": True})
    assert asked == Options("manual", buckets=True)
    assert render.module(asked, RELEASE)[0].count("graph_pool_handle()") == 1
