"""Render the program of a set of options from templates/*.jinja.

A template is plain Python, one chapter per file, except for lines that begin with `#:` and words in «». A program of the
workflows of PyTorch has two templates, for its step and for its checks; both in one file, or each in its own.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold.imports import defined, imports
from cudagraph_skill.scaffold.options import BY_HAND, MEGATRON, PLAIN, SHAPES
from cudagraph_skill.scaffold.rules import checked, divisible
from cudagraph_skill.scaffold.versions import dotted

if TYPE_CHECKING:
    from collections.abc import Mapping

    import jinja2

    from cudagraph_skill.scaffold.options import Options
    from cudagraph_skill.scaffold.versions import Versions

_TEMPLATES = Path(__file__).resolve().parent / "templates"
_RULER = "# Checks " + "-" * 110


def program(options: Options, versions: Versions, file: str = "step.py") -> str:
    """Return the text of the program in one file; its docstring calls it `file`.

    Raises:
        SkillError: The options clash, or the releases do.
    """
    names = templates(checked(options))
    if reason := refused(options, versions):
        raise SkillError(f"skill scaffold: {reason}")
    variables = _variables(options, versions, file)
    if options.workflow not in PLAIN:
        return _rendered(names[0], variables)
    (summary, step), (checks_summary, checks) = (_parts(name, variables) for name in names)
    body = f"{step}\n\n\n{_RULER}\n{_gap(checks)}{checks}"
    return _file(body, variables | {"form": "file", "summary": summary, "checks_summary": checks_summary})


def module(options: Options, versions: Versions, file: str = "step.py") -> tuple[str, str]:
    """Return the same program in two files: the module `file`, and its checks, which import from it.

    Raises:
        SkillError: As above, or the program does not divide.
    """
    divisible(checked(options))
    variables = _variables(options, versions, file)
    (summary, step), (checks_summary, checks) = (_parts(name, variables) for name in templates(options))
    variables |= {"summary": summary, "checks_summary": checks_summary}
    return _file(step, variables | {"form": "module"}), _file(checks, variables | {"form": "checks"}, step)


def checks_file(file: str) -> str:
    """Return the name of the file with the checks of a module: check_step.py for step.py, in the same folder."""
    folder, slash, name = file.rpartition("/")
    return f"{folder}{slash}check_{name}"


def templates(options: Options) -> tuple[str, ...]:
    """Return the names of the templates that the options select: a whole program, or its step and its checks."""
    if options.workflow in ("profile", "transformer-engine"):
        return (f"{options.workflow.replace('-', '_')}.py.jinja",)
    if options.workflow in MEGATRON:
        return ("mcore.py.jinja",)
    if options.training:
        step = "training_manual" if options.workflow in BY_HAND else "training_model"
        return f"{step}.py.jinja", "training_checks.py.jinja"
    shape = next((shape for shape in SHAPES if getattr(options, shape)), "inference")
    return f"{shape}.py.jinja", f"{'decode' if options.decode else 'inference'}_checks.py.jinja"


def _rendered(name: str, variables: Mapping[str, Any]) -> str:
    return _environment().get_template(name).render(variables)


def _parts(name: str, variables: Mapping[str, Any]) -> tuple[str, str]:
    """Render a template of a step or of checks into its first line, which is a docstring, and the rest."""
    summary, _, body = _rendered(name, variables).partition("\n")
    return summary.strip('"'), body.strip("\n")


def _file(body: str, variables: Mapping[str, Any], step: str = "") -> str:
    """Return a file: docstring, imports and body; the checks of a `step` that is in another file import from it."""
    own = Path(str(variables["file"])).stem if step else ""
    needed = imports(body, variables["moved"], own, sorted(defined(step)))
    return f"{_rendered('header.py.jinja', variables)}\n{needed}\n{_gap(body)}{body}\n"


def _gap(code: str) -> str:
    """Return the empty lines above code: two above a function or class, else one."""
    return "\n" * (2 if isinstance(ast.parse(code).body[0], ast.FunctionDef | ast.ClassDef) else 1)


def refused(options: Options, versions: Versions) -> str:
    """Return why there is no program for these releases, with the nearest, or an empty text.

    Wrong gradients were seen on a GPU (benchmarks/megatron_graphs.py); missing functions were read in the source.
    """
    if options.workflow != "mcore-per-layer":
        return ""
    core, engine = versions.megatron_core, versions.transformer_engine
    if (0, 16) <= core < (0, 18):
        return (
            f"graphs of single layers compute wrong gradients in megatron-core {dotted(core)}, which overwrites the input of "
            "the first layer before its backward; nearest: `--for megatron-core==0.18`, or `--workflow mcore-full-iteration`"
        )
    lacks, nearest = "", (0, 0)
    if options.fp8 and core >= (0, 18) and engine < (2, 6):
        lacks, nearest = "make_weak_ref", (2, 6)
    if options.fp8 and core < (0, 16) and (2, 15) <= engine < (2, 17):
        lacks, nearest = "set_skip_fp8_weight_update_tensor", (2, 17)
    if not lacks:
        return ""
    return (
        f"graphs of megatron-core {dotted(core)} call {lacks}, which Transformer Engine {dotted(engine)} does not have; "
        f"nearest: `--for transformer-engine=={dotted(nearest)}`"
    )


def _variables(options: Options, versions: Versions, file: str) -> dict[str, Any]:
    """Return the variables of the templates: every option by its name, and values derived from options and releases."""
    distributed = options.ddp or options.fsdp
    compiled = options.workflow in ("reduce-overhead", "manual-over-compile")
    ways = ("eager", "compiled", "graph") if compiled else ("eager", "graph")
    dtype = {"": "", "bf16": "torch.bfloat16", "fp16": "torch.float16"}[options.amp]
    autocast = bool(dtype) and not options.fsdp  # FSDP2 has its own mixed-precision policy
    policy = ", mp_policy=policy" if dtype else ""
    return {
        **options._asdict(),
        "way": options.workflow,
        "file": file,
        "checks_file": checks_file(file),
        "steps": 50,
        "compiled": compiled,
        "distributed": distributed,
        "dtype": dtype,
        "autocast": autocast,
        "autocast_also": f', torch.autocast("cuda", {dtype})' if autocast else "",
        "launch": "torchrun --nproc-per-node 2" if distributed else "python",
        "ways": ", ".join(f'"{way}"' for way in ways),
        "ways_text": ", ".join(ways),
        "shard": lambda module: f"fully_shard({module}, reshard_after_forward=False{policy})",
        "moved": {} if versions.torch >= (2, 6) else {"torch.distributed.fsdp": "torch.distributed._composable.fsdp"},
        "register": versions.torch < (2, 14),  # from 2.14 on a capture registers each generator that it meets
        "torch": dotted(versions.torch),
        "versions": versions,
    }


@cache
def _environment() -> jinja2.Environment:
    """Set up Jinja so that templates read as Python: statements in comments, words in quotes that Python does not use.

    Raises:
        SkillError: jinja2 is not installed (exit code 3).
    """
    try:
        import jinja2
    except ImportError:
        raise SkillError("skill scaffold needs the package jinja2: pip install jinja2 (torch installs it too)", 3) from None
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        undefined=jinja2.StrictUndefined,
        variable_start_string="«",
        variable_end_string="»",
        block_start_string="#:",  # Jinja's own line statements would swallow the empty lines after them
        block_end_string="\n",
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Python, not HTML
    )
