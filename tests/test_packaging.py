"""What is installed is what stands in the tree, and nothing of ours takes a name that belongs to others."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import cudagraph_skill
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LAUNCHERS = [*(ROOT / "tools").glob("*.py"), *(ROOT / "server").glob("*.py")]


def _packages_on_disk() -> set[str]:
    packages = set()
    for base in ("tools", "server"):
        for init in (ROOT / base).rglob("__init__.py"):
            packages.add(".".join(init.parent.relative_to(ROOT / base).parts))
    return packages


def test_the_package_list_is_the_folders_on_disk() -> None:
    listed = set(PROJECT["tool"]["setuptools"]["packages"]) - {"cudagraph_skill._skill"}
    assert listed == _packages_on_disk()


def test_launchers_are_short_and_named_unlike_any_module_of_python() -> None:
    for path in LAUNCHERS:
        assert path.stem not in sys.stdlib_module_names
        assert len(path.read_text().splitlines()) <= 12


TOOLS = sorted((ROOT / "tools").glob("[!_]*.py"))
OLD = """
import runpy, sys
sys.version_info = (3, 10, 13)
sys.path.insert(0, sys.argv[1].rpartition("/")[0])
runpy.run_path(sys.argv.pop(1), run_name="__main__")
"""


def _refuses(done: subprocess.CompletedProcess[str], version: str) -> None:
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (3, "", 1)
    assert f" is Python {version}" in done.stderr
    assert f"Python 3.11 or newer is needed: type python3.11 {ROOT}/tools/" in done.stderr


@pytest.mark.parametrize("launcher", TOOLS, ids=lambda path: path.name)
def test_launchers_refuse_a_python_that_is_too_old(launcher: Path) -> None:
    done = subprocess.run([sys.executable, "-c", OLD, str(launcher), "pool"], capture_output=True, text=True, check=False)
    _refuses(done, "3.10.13")
    assert 'requires-python = ">=3.11"' in (ROOT / "pyproject.toml").read_text()
    for path in (launcher, launcher.with_name("_start.py")):
        assert path.read_text().isascii()  # Python 2.7 reads nothing else
        ast.parse(path.read_text(), feature_version=(3, 4))


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.9", "3.10"])
def test_launchers_refuse_the_old_pythons_of_this_machine(version: str) -> None:
    kept = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    python = str(kept[0]) if kept else shutil.which(f"python{version}")
    if python is None:
        pytest.skip(f"there is no Python {version} here")
    for launcher in TOOLS:
        done = subprocess.run([python, str(launcher), str(launcher)], capture_output=True, text=True, check=False)
        _refuses(done, f"{version}.")


def test_no_python_file_lies_in_the_root() -> None:
    assert list(ROOT.glob("*.py")) == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build a wheel from a copy of the tree, so that a dirty `build/` cannot leak into it, and return its names."""
    folder = tmp_path_factory.mktemp("wheel")
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "benchmarks")
    shutil.copytree(ROOT, folder / "src", ignore=unwanted)
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(folder / "src")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = folder.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


@pytest.mark.slow
def test_the_wheel_holds_the_packages_the_skill_and_nothing_else(wheel: set[str]) -> None:
    expected = {f"cudagraph_skill/_skill/{name}" for name in ("SKILL.md", "LICENSE", "card.yaml")}
    expected |= {f"cudagraph_skill/_skill/{path.relative_to(ROOT)}" for path in LAUNCHERS}
    expected |= {f"cudagraph_skill/_skill/references/{path.name}" for path in (ROOT / "references").glob("*.md")}
    expected |= {
        f"cudagraph_skill/_skill/{path.relative_to(ROOT)}"
        for folder in ("errors", "hazards")  # `skill verify` runs them
        for path in (ROOT / "tests" / folder).glob("*.py")
    }
    expected |= {f"cudagraph_skill/_skill/questions/{path.name}" for path in (ROOT / "questions").glob("*.txt")}
    for base in ("tools", "server"):
        for package in _packages_on_disk():
            folder = ROOT / base / package.replace(".", "/")
            expected |= {str(path.relative_to(ROOT / base)) for path in folder.glob("*.py")} if folder.is_dir() else set()
    expected |= {
        f"cudagraph_skill/{package}/templates/{path.name}"
        for package in ("scaffold", "report")
        for path in (ROOT / "tools/cudagraph_skill" / package / "templates").glob("*")
    }
    expected |= {"cudagraph_skill/py.typed", "cudagraph_skill_server/py.typed"}
    assert {name for name in wheel if ".dist-info/" not in name} == expected


@pytest.mark.slow
def test_nothing_is_importable_as_tools_or_server(wheel: set[str]) -> None:
    assert {name.split("/")[0] for name in wheel if ".dist-info/" not in name} == {"cudagraph_skill", "cudagraph_skill_server"}


def test_torch_is_an_extra_only() -> None:
    assert not any(name.startswith("torch") for name in PROJECT["project"]["dependencies"])
    assert {"torch", "gpu", "test"} <= set(PROJECT["project"]["optional-dependencies"])


def test_the_version_is_the_same_everywhere() -> None:
    version = cudagraph_skill.__version__
    assert yaml.safe_load((ROOT / "card.yaml").read_text())["version"] == version
    assert f"version: {version}\n" in (ROOT / "SKILL.md").read_text()
    assert f"## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


# What each module or package may import, besides itself; a package's inside is open to the packages that name it here.
NOUNS = {"errors", "text", "paths", "files"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "text": set(),
    "paths": {"errors"},
    "files": {"text"},
    "corpus": NOUNS,
    "check": NOUNS,
    "diagnosis": NOUNS | {"corpus", "check"},
    "capture": NOUNS | {"check"},
    "decide": NOUNS | {"check", "capture"},
    "tune": NOUNS | {"check", "diagnosis", "capture"},
    "bench": NOUNS | {"capture"},
    "report": NOUNS | {"capture", "decide", "tune", "bench"},
    "scaffold": NOUNS | {"check", "diagnosis", "capture"},
    "config": NOUNS,
    "setup": NOUNS | {"corpus", "capture"},
    "verify": NOUNS | {"corpus", "check", "diagnosis", "capture", "scaffold", "bench", "setup"},
}


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(path.read_text())))


def _imports(path: Path) -> set[str]:
    """Return the modules of ours that a file imports anywhere."""
    modules = set()
    for node in _nodes(path):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("cudagraph_skill"):
            inner = (node.module or "").split(".")[1:]
            modules |= set(inner[:1]) or {alias.name for alias in node.names}
    return modules - {"__version__"}


@pytest.mark.parametrize("name", ALLOWED)
def test_each_package_imports_only_what_lies_below_it(name: str) -> None:
    base = ROOT / "tools/cudagraph_skill" / name
    files = list(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
    assert files
    for path in files:
        assert _imports(path) - {name} <= ALLOWED[name], path


@pytest.mark.parametrize("guest", ["capture/guest", "scaffold/guest", "bench/guest"])
def test_a_guest_imports_itself_and_the_standard_library_and_torch(guest: str) -> None:
    itself = (
        "cudagraph_skill." + guest.replace("/", "."),
        *(["cudagraph_skill.capture.guest"] if guest == "bench/guest" else []),
    )
    for path in (ROOT / "tools/cudagraph_skill" / guest).glob("*.py"):
        for node in _nodes(path):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            ours = [name for name in names if name.startswith("cudagraph_skill")]
            assert all(name.startswith(itself) for name in ours), path
            outside = {name.split(".")[0] for name in names if name not in ours}
            assert outside <= {*sys.stdlib_module_names, "torch", "cuda"}, path


def _modules() -> dict[str, Path]:
    """Return the files of the package by dotted module name."""
    root = ROOT / "tools"
    names = {".".join(path.relative_to(root).with_suffix("").parts): path for path in (root / "cudagraph_skill").rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in names.items()}


def _imported(path: Path, modules: dict[str, Path]) -> set[str]:
    """Return the modules that a file imports, also in functions and for type checkers."""
    imported = set()
    for node in _nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {whole if (whole := f"{node.module}.{alias.name}") in modules else node.module for alias in node.names}
    return imported & set(modules)


def test_imports_form_no_cycle() -> None:
    modules = _modules()
    graph = {name: _imported(path, modules) - {name} for name, path in modules.items()}
    assert list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the modules


def test_every_package_has_its_layer() -> None:
    entries = {
        path.stem
        for path in (ROOT / "tools/cudagraph_skill").iterdir()
        if path.suffix == ".py" or (path / "__init__.py").is_file()
    }
    assert entries - {"__init__", "__main__", "cli"} == set(ALLOWED)


def test_the_checker_imports_only_nouns_and_itself() -> None:
    for path in (ROOT / "tools/cudagraph_skill/check").rglob("*.py"):
        assert _imports(path) <= NOUNS | {"check"}, path
        for node in _nodes(path):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert {name.split(".")[0] for name in names} <= {*sys.stdlib_module_names, "cudagraph_skill"}, path


def test_checking_imports_no_slow_module() -> None:
    slow = "{'asyncio', 'concurrent.futures', 'dataclasses', 'inspect', 'tomllib', 'tempfile', 'tokenize', 'yaml'}"
    ours = "from cudagraph_skill import cli; from cudagraph_skill.check import output"
    code = f"import sys; {ours}; print(*{slow} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "tools")
    assert done.stdout == "\n"


def test_searching_imports_no_heavy_package_of_others() -> None:
    others = "'torch', 'mcp', 'yaml', 'markdown_it', 'shtab', 'jinja2'"
    heavy = f"{{{others}, 'urllib.request', 'ssl', 'dataclasses', 'importlib.metadata'}}"
    code = f"import sys; from cudagraph_skill.corpus import index, output, whoosh_store; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "tools")
    assert done.stdout == "\n"
    code = "from cudagraph_skill.corpus import whoosh_store; import urllib.request; print(urllib.request.urlopen.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT / "tools")
    assert done.stdout == "urlopen\n"


def test_a_server_starts_without_what_its_answers_need() -> None:
    code = """import sys; from cudagraph_skill_server import app; app.build()
ours = {name.split(".")[1] for name in sys.modules if name.startswith("cudagraph_skill.")}
others = {"torch", "yaml", "whoosh", "markdown_it", "jinja2", "shtab"} & set(sys.modules)
print(*sorted(ours), *sorted(others))"""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'server'}"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    # bench and scaffold: names of workloads and options, which are in the definitions of tools
    assert done.stdout.split() == ["bench", "errors", "paths", "scaffold", "text"]


def test_functions_stay_small() -> None:
    long = []
    for path in [*(ROOT / "tools").rglob("*.py"), *(ROOT / "server").rglob("*.py")]:
        functions = [node for node in _nodes(path) if isinstance(node, ast.FunctionDef)]
        long += [f"{path.name}:{node.name}" for node in functions if (node.end_lineno or 0) - node.lineno > 60]
    assert long == []
