"""A receipt says what a program showed; whatever the program does, it says how that ended, and nothing of it is left."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import textwrap
import time
import venv
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import pytest
from cudagraph_skill.errors import SkillError
from cudagraph_skill.scaffold import process, receipt
from cudagraph_skill.scaffold.guest import verify
from cudagraph_skill.scaffold.options import OPTIONS, WORKFLOWS, Options
from cudagraph_skill.scaffold.receipt import Receipt
from user_files import module_of

ROOT = Path(__file__).resolve().parent.parent
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the guest imports torch; CI has it, see conftest.py")

PROGRAM = '''
"""A program with all that is asked for, which works on the CPU."""

import json
import os
import subprocess
import sys
import time

import torch


class Doubling:
    def __call__(self, x):
        return 2 * x


class Graphed:
    def __init__(self, eager):
        self.eager = eager

    def __call__(self, x):
        return self.eager(x)


def batches(count):
    return [(torch.full((2,), float(each)),) for each in range(count)]


def prepare(how):
    eager = Doubling()
    return Graphed(eager) if how == "graph" else eager


def parity():
    PARITY
    return {"steps": 50, "without_graph_twice": 0.0, "graph": torch.zeros(())}


def rollback():
    ROLLBACK
    return {"steps": 50, "graph_then_eager": 0.0}


def timing():
    TIMING
    return {"eager": [90.0, 80.0, 99.0], "graph": [30.0, 29.0, 31.0]}


def main():
    report = {}
    for check in CHECKS:
        report[check.__name__] = check()
        print(check.__name__, flush=True)
    return report


if __name__ == "__main__":
    main()
'''


def write(folder: Path, checks: str = "(parity, rollback, timing)", name: str = "step.py", **bodies: str) -> Path:
    """Write the program with these statements in its checks."""
    text = PROGRAM.replace("CHECKS", checks)
    for check in ("parity", "rollback", "timing"):
        body = textwrap.indent(textwrap.dedent(bodies.get(check, "pass")).strip(), "    ").strip()
        text = text.replace(check.upper(), body)
    file = folder / name
    file.write_text(text.lstrip())
    return file


def line(file: Path, text: str) -> int:
    return next(number for number, content in enumerate(file.read_text().splitlines(), 1) if text in content)


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipt, "_GUEST", Path(__file__).with_name("without_gpu.py"))


def verified(file: Path, **options: Any) -> Receipt:
    return receipt.verify(file, **{"python": sys.executable, "deadline": 200, **options})


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# A program that is run -------------------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.usefixtures("on_cpu")
def test_a_program_that_is_right(tmp_path: Path) -> None:
    (tmp_path / "values.py").write_text("ANSWER = 42\n")  # the guest's folder has a values.py, too
    file = write(tmp_path, parity="import values; assert values.ANSWER == 42 and sys.argv == [__file__]; print('hello')")
    progress: list[str] = []
    result = verified(file, on_progress=progress.append, command="--workflow manual")
    assert result.verdict == "ok", result
    assert result.report["parity"] == {"steps": 50, "without_graph_twice": 0.0, "graph": 0.0}
    assert result.report["timing"]["graph"] == [30.0, 29.0, 31.0]
    assert result.said.startswith("over 50 steps the graph differs by 0 from the same without it, 0 after going back to eager")
    assert "eager 90 us, graph 30 us: 3.0x" in result.said
    assert progress == [f"{file}: {check}" for check in ("parity", "rollback", "timing", "replay")]
    assert "hello" in result.log
    assert "the replay was not measured" in result.report["notes"][0]  # it needs a GPU
    assert {"torch", "python", "date"} <= set(result.machine)
    assert result.digest == receipt.digest(file.read_text())
    assert (result.command, result.cause, result.fallback) == ("--workflow manual", "", "")
    assert not list(tmp_path.rglob("*.pyc"))[1:]  # at most that of values.py


@pytest.mark.slow
@needs_torch
@pytest.mark.usefixtures("on_cpu")
def test_a_wrong_result_has_its_line_and_the_way_back_to_eager(tmp_path: Path) -> None:
    file = write(tmp_path, rollback="torch.testing.assert_close(1.0, 2.0, rtol=0, atol=0)")
    result = verified(file)
    assert result.verdict == "failed"
    place = f"({file}:{line(file, 'assert_close')})"
    assert result.said.startswith("rollback does not hold: AssertionError: Scalars are not")
    assert result.said.endswith(place)
    assert set(result.report) == {"parity"}
    eager, graphed = line(file, "class Doubling"), line(file, "class Graphed")
    assert result.fallback == (
        f'prepare("eager") ({file}:{line(file, "def prepare")}) runs without a graph, and ran 50 steps here: '
        f"Doubling (line {eager}) without Graphed (line {graphed})"
    )
    assert "Traceback" in result.log
    assert "verify.py" not in result.log


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_the_cause_is_that_of_the_log(tmp_path: Path) -> None:
    error = "CUDA error: operation not permitted when stream is capturing\\nSearch for it\\n"
    result = verified(write(tmp_path, parity=f'raise RuntimeError("{error}")'))
    assert result.said.startswith("parity failed: RuntimeError: CUDA error: operation not permitted when stream is capturing (")
    assert "confidence" in result.cause
    assert result.cause.isprintable()
    assert result.fallback


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_eager_is_no_way_out_where_it_fails_too(tmp_path: Path) -> None:
    file = write(tmp_path, parity="prepare('eager')(1)")
    file.write_text(file.read_text().replace("return 2 * x", "raise ValueError('this is broken')"))
    result = verified(file)
    assert result.said.endswith("; its eager way fails too (ValueError: this is broken), so this is not the graph's doing")
    assert (result.cause, result.fallback) == ("", "")


ENDS = {
    "sys.exit(0)": "rollback failed: SystemExit: 0",
    "os._exit(0)": "rollback: the program ended with exit code 0",
    "os.kill(os.getpid(), 11)": "rollback: the program ended with SIGSEGV",
    "class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError('of 80 GiB')": "rollback ran out of GPU memory: ",
    "if os.fork() == 0:\n    raise ValueError('in a fork')\nos.wait()": "",
    "os.close(1); os.close(2)": "main failed: OSError: [Errno 9] Bad file descriptor",  # of the print in main
    "print('x' * 100_000)\n" * 50 + "print('the end')": "",
    "sys.stdout.close(); sys.stderr.close()": "main failed: ValueError: I/O operation on closed file",
}


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_ends_of_all_kinds(tmp_path: Path) -> None:
    files = []
    for number, statement in enumerate(ENDS):
        (tmp_path / str(number)).mkdir()
        files.append(write(tmp_path / str(number), rollback=statement))
    with ThreadPoolExecutor(4) as pool:
        results = dict(zip(ENDS, pool.map(verified, files), strict=True))
    for statement, sentence in ENDS.items():
        made = results[statement]
        assert "parity" in made.report
        assert made.said.startswith(sentence or "over 50 steps"), made
        assert made.verdict == ("failed" if sentence else "ok"), made
        assert len(made.log) <= 6000
        assert ("the end" in made.log) == ("the end" in statement)


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_a_hang_ends_at_the_deadline_and_says_where(tmp_path: Path) -> None:
    file = write(tmp_path, rollback="time.sleep(600)")
    start = time.monotonic()
    result = verified(file, deadline=8)
    assert time.monotonic() - start < 30
    assert result.said == "rollback: the program did not end within 8 s"
    assert set(result.report) == {"parity"}
    assert f'step.py", line {line(file, "sleep(600)")} in rollback' in result.log
    assert result.fallback


ESCAPES = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    open(sys.argv[1], "a").write(f"{os.getpid()} ")
    time.sleep(600)
"""


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_nothing_is_left_of_a_program(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    escape = f"""
        subprocess.run([sys.executable, "-c", {ESCAPES!r}, {str(pids)!r}])
        while not os.path.exists({str(pids)!r}): time.sleep(0.01)
    """
    file = write(tmp_path, parity=escape)
    assert verified(file).verdict == "ok"

    def stop(message: str) -> None:
        if message.endswith("rollback"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verified(file, on_progress=stop)
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 2
    assert not any(map(alive, left))


DETACHED = """
import os, sys
code = "import os, sys, time; open(sys.argv[1], 'a').write(f'{os.getpid()} '); time.sleep(600)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", code, sys.argv[1]], {})
    os._exit(0)
os.wait()
"""


@needs_torch
@pytest.mark.usefixtures("on_cpu")
def test_a_daemon_with_an_empty_environment_is_ended(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    started = f"""
        subprocess.run([sys.executable, "-c", {DETACHED!r}, {str(pids)!r}])
        while not os.path.exists({str(pids)!r}) or not open({str(pids)!r}).read(): time.sleep(0.01)
    """
    assert verified(write(tmp_path, parity=started)).verdict == "ok"
    assert not any(map(alive, map(int, pids.read_text().split())))


@needs_torch
@pytest.mark.usefixtures("on_cpu")
def test_nothing_is_left_where_we_are_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    started = f"""
        open({str(pids)!r}, "w").write(f"{{os.getpid()}} ")
        subprocess.run([sys.executable, "-c", {DETACHED!r}, {str(pids)!r}])
        time.sleep(600)
    """
    file = write(tmp_path, parity=started)
    code = f"""
from pathlib import Path
from cudagraph_skill.scaffold import receipt
receipt._GUEST = Path({str(receipt._GUEST)!r})
receipt.run_guest(Path({str(file)!r}), {sys.executable!r}, deadline=90)
"""
    host = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    end = time.monotonic() + 60
    while (not pids.exists() or len(pids.read_text().split()) < 2) and time.monotonic() < end:
        time.sleep(0.05)
    left = [int(pid) for pid in pids.read_text().split()]
    assert len(left) == 2
    host.kill()
    host.wait()
    while any(map(alive, left)) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(map(alive, left))


@needs_torch
@pytest.mark.usefixtures("on_cpu")
def test_what_the_program_writes_into_our_file_is_left_out(tmp_path: Path) -> None:
    forged = """
        files = [os.readlink(f"/proc/self/fd/{number}") for number in range(3, 40) if os.path.exists(f"/proc/self/fd/{number}")]
        (report,) = [file for file in files if file.endswith("report.jsonl")]
        open(report, "a").write("nothing\\n" + '{"event": 1}\\n' + "[" * 100000 + "\\n" + '{"event": "failed"}\\n')
    """
    assert verified(write(tmp_path, parity=forged)).verdict == "ok"


@needs_torch
@pytest.mark.usefixtures("on_cpu")
def test_a_run_can_be_cancelled(tmp_path: Path) -> None:
    file, asked = write(tmp_path, parity="time.sleep(600)"), time.monotonic()
    with pytest.raises(SkillError, match="was cancelled"):
        verified(file, cancelled=lambda: time.monotonic() > asked + 0.5)
    assert time.monotonic() - asked < 10


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_a_main_that_leaves_out_a_check(tmp_path: Path) -> None:
    result = verified(write(tmp_path, checks="(parity,)"))
    assert (result.verdict, result.said) == ("failed", "main() came back without having called rollback() and timing()")


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_what_main_returns_besides_is_reported(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text(file.read_text().replace("    return report\n", "    return {**report, 'decide': {'next': 'nan'}}\n"))
    assert verified(file).report["decide"] == {"next": "nan"}


@needs_torch
@pytest.mark.usefixtures("on_cpu")
def test_an_import_that_fails(tmp_path: Path) -> None:
    file = write(tmp_path)
    file.write_text("import no_such_module\n" + file.read_text())
    result = verified(file)
    assert result.said == f"import failed: ModuleNotFoundError: No module named 'no_such_module' ({file}:1)"


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_a_file_with_the_name_of_a_module_of_python(tmp_path: Path) -> None:
    assert verified(write(tmp_path, name="profile.py")).verdict == "ok"


DISTRIBUTED = """
def main():
    import torch.distributed as dist
    dist.init_process_group("gloo")
    both = torch.ones(1)
    dist.all_reduce(both)
    assert both.item() == 2
    report = {each.__name__: each() for each in (parity, rollback, timing)}
    dist.destroy_process_group()
    return report
"""


def distributed(folder: Path, **bodies: str) -> Path:
    file = write(folder, **bodies)
    file.write_text(file.read_text().replace("if __name__", DISTRIBUTED.strip() + "\n\n\nif __name__"))
    return file


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_two_processes(tmp_path: Path) -> None:
    result = verified(distributed(tmp_path), processes=2)
    assert result.verdict == "ok", result
    assert set(result.report) == {"parity", "rollback", "timing"}


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
def test_the_second_of_two_processes_fails(tmp_path: Path) -> None:
    wrong = "assert os.environ['RANK'] == '0', 'wrong on the second'\nimport torch.distributed as dist; dist.barrier()"
    result = verified(distributed(tmp_path, parity=wrong), processes=2)
    assert result.said.startswith("parity does not hold: AssertionError: wrong on the second")
    assert "ran 50 steps" in result.fallback


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_programs_side_by_side_are_timed_alone(tmp_path: Path, processes: int) -> None:
    note = "open({!r}, 'a').write(f'{} {} {{time.monotonic()}}\\n')"
    files = []
    for number in range(3):
        folder = tmp_path / str(number)
        folder.mkdir()
        begin, end, busy = (note.format(str(tmp_path / "times"), number, what) for what in ("begin", "end", "busy"))
        bodies = {
            "parity": f"time.sleep({number} / 4); {busy}",
            "timing": f"time.perf_counter(); {begin}; time.sleep(0.3); {end}",  # begins when it is told the time
        }
        files.append((distributed if processes > 1 else write)(folder, **bodies))
    flags = ["--turn", str(tmp_path / "turn")]
    with ThreadPoolExecutor() as pool:
        ran = list(
            pool.map(lambda file: receipt.run_guest(file, sys.executable, flags, processes=processes, deadline=200), files)
        )
    assert [run.ended for run in ran] == ["", "", ""], ran
    times = sorted(
        (words.split() for words in (tmp_path / "times").read_text().splitlines()), key=lambda words: float(words[2])
    )
    order = [(who, what) for who, what, _ in times]
    spans = [order.index((str(number), "begin")) for number in range(3)]
    for number, start in enumerate(spans):  # until all of its processes are done, nobody else says anything
        assert order[start : start + 2 * processes].count((str(number), "end")) == processes, order


# A machine that lacks something ----------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_torch
@pytest.mark.parametrize("processes", [1, 2])
def test_without_a_gpu_a_sentence_says_so(tmp_path: Path, processes: int) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(SkillError, match="the program needs a GPU, and ") as raised:
        verified(write(tmp_path), processes=processes)
    assert raised.value.exit_code == 3


def test_without_torch_a_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    venv.create(tmp_path / "bare")
    python = str(tmp_path / "bare" / "bin" / "python")
    with pytest.raises(SkillError, match=f"{python} has no torch: name the Python that has it with `--python`") as raised:
        verified(write(tmp_path), python=python)
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ("/nowhere/python", "No such file or directory"),
        ("/bin/true", "did not run our file"),
        ("/bin/false", "exit code 1"),
        ("/bin", "that is a folder"),
        ("step.py", "no such program on the PATH"),
    ],
)
def test_an_interpreter_that_is_none(tmp_path: Path, python: str, sentence: str) -> None:
    with pytest.raises(SkillError, match=sentence) as raised:
        verified(write(tmp_path), python=python)
    assert raised.value.exit_code == 3


def test_a_deadline_that_came_first_is_no_fault_of_the_interpreter(tmp_path: Path) -> None:
    slow = tmp_path / "python"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o700)
    with pytest.raises(SkillError, match=r"in time .*: give it longer with `--deadline`") as raised:
        verified(write(tmp_path), python=str(slow), deadline=0.2)
    assert raised.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("def main(:\n", "step.py:1:10: could not be read as Python"),
        ("x = 1\ny = '\0'\n", "a NUL byte stands at line 2, column 6; nothing was run"),
        (f"x = {'-' * 200_000}1\n", "step.py:1:1: .* nested too deeply"),
        (f"x = {'1 + ' * 200_000}1\n", "step.py:1:1: .* nested too deeply"),
        ("#" * (16 << 20) + "\n", "it has more than 16 MiB"),
        (
            "def main(): ...\nparity = timing = main\n",
            r"it has no rollback\(\); a program needs main\(\), parity\(\), rollback\(\) and",
        ),
        ("", r"it has no main\(\), parity\(\), rollback\(\) and timing\(\);"),
    ],
    ids=lambda text: text[:20],
)
def test_a_file_that_is_no_such_program(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "step.py").write_text(text)
    with pytest.raises(SkillError, match=sentence) as raised:
        verified(tmp_path / "step.py")
    assert raised.value.exit_code == 2


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/full", "pipe.py", "folder.py", "gone.py", "x" * 300 + ".py", "loop.py"])
def test_what_is_no_file_is_not_opened(path: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    (tmp_path / "loop.py").symlink_to("loop.py")
    with pytest.raises(SkillError, match="; name a program that `skill scaffold` wrote") as raised:
        verified(tmp_path / path)
    assert raised.value.exit_code == 2


def test_a_program_has_the_name_of_a_python_file(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"ends in \.py: rename it"):
        verified(write(tmp_path, name="step.txt"))


ACCENTS = "# coding: latin-1\n# é\n"


@pytest.mark.parametrize("data", ["\ufeff{}".encode(), f"{ACCENTS}{{}}".encode("latin-1"), b"{}"])
def test_source_is_decoded_as_python_does(data: bytes, tmp_path: Path) -> None:
    file = write(tmp_path)
    plain = file.read_text()
    file.write_bytes(data.replace(b"{}", plain.encode()))
    text = receipt.program_text(file)
    assert text.endswith(plain)
    assert ("é" in text) == (b"coding" in data)
    assert (receipt.digest(text) == receipt.digest(plain)) == (b"coding" not in data)


@pytest.mark.parametrize("data", [b"# \xe9\n", b"# coding: none\n", b"# coding: rot13\n", b"x = 1\ny = 2\nz = '\xff'\n"])
def test_source_that_cannot_be_decoded_is_one_sentence(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "step.py").write_bytes(data)
    with pytest.raises(SkillError, match="save it as UTF-8, or name its encoding"):
        verified(tmp_path / "step.py")


# The parts --------------------------------------------------------------------------------------------------------------


def test_the_union_of_spans_counts_no_time_twice() -> None:
    assert verify.union([]) == 0
    assert verify.union([(5, 9), (0, 4), (2, 6), (6, 7), (20, 30)]) == 19


def test_results_become_json() -> None:
    assert verify.plain({1: (True, None, float("nan"), 2.5, {"a"})}) == {"1": [True, None, "nan", 2.5, "{'a'}"]}


def test_events_of_other_processes_stay_out_unless_they_fail(tmp_path: Path) -> None:
    path = tmp_path / "report"
    second = verify.Report(str(path), 1)
    second.add("result", check="parity", result={})
    second.add("failed", check="parity")
    assert [json.loads(event)["event"] for event in path.read_text().splitlines()] == ["failed"]


def test_names_that_a_module_binds() -> None:
    text = "import a.b, c as d\nfrom e import *\nif d:\n    x, (y, *z) = 1\n    def f(inner): local = 1\nclass G: member = 1\n"
    assert receipt.bound(ast.parse(text)) == {"a", "d", "*", "x", "y", "z", "f", "G"}


PARTS = "class Plain: ...\nclass Graph: ...\ndef helper(): ...\ndef batches(count): ...\n"
INSTEAD = ": Plain (line 1) without Graph (line 2)"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("return Graph(Plain()) if how == 'graph' else Plain()", INSTEAD),
        ("if how != 'eager':\n  return Graph(helper())\nreturn Plain()", f"{INSTEAD} and helper (line 3)"),
        ("if how in ('eager', 'compiled'):\n  return Plain()\nelse:\n  batches(1)\nreturn Graph()", INSTEAD),
        ("return Plain(compiled=how != 'eager')", ""),
        ("return {'eager': Plain, 'graph': Graph}[how]()", ""),
    ],
)
def test_where_the_eager_way_is(body: str, sentence: str) -> None:
    text = f"{PARTS}def prepare(how):\n{textwrap.indent(body, '  ')}\n"
    assert receipt.fallback("step.py", text, 50) == (
        f'prepare("eager") (step.py:5) runs without a graph, and ran 50 steps here{sentence}'
    )


@pytest.mark.parametrize("odd", ["x = " + "1 + " * 900 + "1", "if how in 3: pass", "if how == {[]}: pass"])
def test_no_expression_stands_in_the_way_of_finding_it(odd: str) -> None:
    text = f"{PARTS}def prepare(how):\n  {odd}\n  return Graph(Plain()) if how == 'graph' else Plain()\n"
    assert receipt.fallback("step.py", text, 50).endswith(INSTEAD)


def test_no_way_is_named_where_the_file_has_none() -> None:
    assert receipt.fallback("step.py", "from other import prepare\n", 50) == ""


@pytest.mark.parametrize("beside", ["done", ""])
def test_an_end_with_a_crash_is_a_failure_unless_the_profiler_was_on(beside: str) -> None:
    names = ("parity", "rollback", "timing")
    events: list[dict[str, Any]] = [{"event": "result", "check": name, "result": {}} for name in names]
    events += [{"event": "checked"}, {"event": "began", "check": "replay"}, *([{"event": beside}] if beside else [])]
    result = receipt.received(Path("step.py"), "", process.Run(events, "ended with SIGSEGV", ""))
    if beside:
        assert (result.verdict, result.said) == ("failed", "the checks passed, then the program ended with SIGSEGV")
    else:
        assert result.verdict == "ok"
        assert result.report["notes"] == ["the replay was not measured: the program ended with SIGSEGV"]


MADE = Receipt("step.py", "ok", "said", {"parity": {}}, {"gpu": "H200"}, "", "0", "", "", "")


def test_a_receipt_lies_beside_its_program(tmp_path: Path) -> None:
    made = MADE._replace(file="\udcff.py")  # a name in an encoding of the user's
    path = receipt.write(MADE, tmp_path / "step.py")
    assert path == receipt.write(made, tmp_path / "step.py") == tmp_path / "step.receipt.json"  # the earlier one is replaced
    assert Receipt(**json.loads(path.read_text())) == made
    with pytest.raises(SkillError, match="No such file or directory"):
        receipt.write(made, tmp_path / "nowhere" / "step.py")


def untouched(path: Path) -> tuple[int, ...]:
    """Return the properties of a file that a write or a replacement would change; reading it may change its access time."""
    there = path.lstat()
    return there.st_ino, there.st_mode, there.st_size, there.st_mtime_ns, there.st_ctime_ns


@pytest.mark.parametrize("there", ['{"digest": 1}', "[" * 100_000, "", "link", "dangling", "folder", "pipe"])
def test_only_a_receipt_is_replaced_by_one(there: str, tmp_path: Path) -> None:
    path = tmp_path / "step.receipt.json"
    (tmp_path / "notes.txt").write_text("mine\n")
    make = {
        "link": lambda: path.symlink_to("notes.txt"),
        "dangling": lambda: path.symlink_to("gone.txt"),
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
    }
    make.get(there, lambda: path.write_text(there))()
    before = untouched(path)
    sentence = r"step\.receipt\.json is no receipt and stays as it is: move it away, or rename step\.py"
    with pytest.raises(SkillError, match=sentence) as raised:
        verified(write(tmp_path), python="/nowhere/python")  # said before anything is run
    assert raised.value.exit_code == 2
    with pytest.raises(SkillError, match=sentence):
        receipt.write(MADE, tmp_path / "step.py")
    assert untouched(path) == before
    assert (tmp_path / "notes.txt").read_text() == "mine\n"
    assert not (tmp_path / "gone.txt").exists()


def test_the_guest_is_run_as_it_lies() -> None:
    text = (ROOT / "tools/cudagraph_skill/scaffold/guest/verify.py").read_text()
    assert "cudagraph_skill" not in text.replace("import cudagraph_skill", "")
    done = subprocess.run([sys.executable, verify.__file__, "--help"], capture_output=True, text=True, check=True)
    assert "--turn" in done.stdout


# The suite --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def suite() -> Any:
    return module_of(ROOT / "benchmarks" / "receipts.py")


def test_programs_are_chosen_by_whole_words(suite: Any) -> None:
    command = "--workflow manual-over-compile --training --ddp"
    assert suite.matches(command, ["ddp", "training"])
    assert not suite.matches(command, ["manual"])
    assert not suite.matches(command, ["no-ddp"])
    assert suite.matches(command, ["no-fsdp"])


def row(command: str, verdict: str = "ok", digest: str = "0") -> dict[str, Any]:
    timing = {"eager": [90.0, 80.0, 99.0], "graph": [30.0, 29.0, 31.0]}
    machine = {"gpu": "H200", "driver": "580", "torch": "2.11", "python": "3.12", "date": "2026-11-22"}
    return Receipt("step.py", verdict, "said", {"timing": timing}, machine, command, digest, "", "", "")._asdict()


def test_the_newest_receipt_of_each_offered_program_is_kept(suite: Any, tmp_path: Path) -> None:
    evidence = tmp_path / "receipts.json"
    for number, rows in enumerate([[row("a"), row("b", "failed")], [row("b"), row("gone")]]):
        file = tmp_path / f"{number}.json"
        file.write_text("".join(json.dumps(entry) + "\n" for entry in rows))
        suite.keep([file], evidence, {"a", "b"})
    rows = suite.kept(evidence)
    assert [(entry["command"], entry["verdict"]) for entry in rows] == [("a", "ok"), ("b", "ok")]
    assert "90 (80 to 99) | 30 (29 to 31) | 3.0x" in suite.table(rows)[1]
    assert suite.machines(rows) == ["2 programs on H200, driver 580, torch 2.11, Python 3.12, 2026-11-22"]


@needs_torch
@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("holds", [True, False])
def test_the_check_of_a_checkpoint_is_reported_under_its_name(holds: bool, tmp_path: Path) -> None:
    file = write(tmp_path, "(parity, rollback, resume, timing)")
    with file.open("a") as opened:
        opened.write(f"\n\ndef resume():\n    assert {holds}\n    return {{'steps': 20, 'bit_equal': True}}\n")
    result = verified(file)
    if holds:
        assert (result.verdict, result.report["resume"]) == ("ok", {"steps": 20, "bit_equal": True})
    else:
        assert result.verdict == "failed"
        assert result.said.startswith("resume does not hold: AssertionError")


def test_how_far_rounding_goes_is_said() -> None:
    parity = {"steps": 50, "without_graph_twice": 0.0, "sensitivity": 2e-6, "graph": 0.0}
    assert "(which differs from itself by 0, and by 2e-06 where rounding differs)" in receipt.shown({"parity": parity})


@pytest.mark.slow
def test_a_receipt_is_of_the_module_too(suite: Any, programs: Any, tmp_path: Path) -> None:
    program = next(program for program in programs.values() if program.module)
    file = program.write(tmp_path)
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["check_step.py", "step.py"]
    assert receipt.checked_by(tmp_path / "step.py") == receipt.checked_by(file) == file
    assert receipt.digest(receipt.with_modules(file, file.read_text())) == program.digest
    (tmp_path / "step.py").write_text(program.module + "# changed\n")
    assert receipt.digest(receipt.with_modules(file, file.read_text())) != program.digest
    assert {bool(program.module) for program in programs.values()} == {True, False}
    assert suite.Program(*program[:4], "").digest != program.digest


def test_a_receipt_of_another_text_does_not_count(suite: Any) -> None:
    known = {name: suite.Program(name, "text", 1, ()) for name in ("a", "b")}
    rows = [row("a", digest=known["a"].digest), row("b"), row("c", "failed")]
    assert suite.verified(rows, known) == ["a"]
    assert suite.verified([row("a", "failed", known["a"].digest)], known) == []
    assert suite.wrong(rows, known.values()) == ["no longer offered: c", "c: said"]
    assert suite.lacks(known["a"], 1) == ""
    assert suite.lacks(known["a"]._replace(processes=2), 1) == "needs 2 GPUs, here are 1"
    assert suite.lacks(known["a"]._replace(needs=("no_such_package",)), 1) == "needs no_such_package"


@pytest.fixture(scope="module")
def programs(suite: Any) -> Any:
    return suite.programs()


def receipts_of(programs: dict[Any, Any]) -> list[dict[str, Any]]:
    return [row(program.command, digest=program.digest) for program in programs.values()]


def test_every_pair_of_option_values_is_in_a_receipt(suite: Any, programs: Any) -> None:
    assert suite.to_run(suite.kept(suite.EVIDENCE), programs) == []


def test_stale_receipts_are_replaced_by_few_that_cover_their_pairs(suite: Any, programs: Any) -> None:
    changed = {
        options: program._replace(text=f"{program.text}# changed\n") if options.workflow == "manual" else program
        for options, program in programs.items()
    }
    rows = receipts_of(programs)
    wanted = {program.command for program in suite.to_run(rows, changed)}
    assert 0 < len(wanted) < 20
    rows += receipts_of({options: program for options, program in changed.items() if program.command in wanted})
    assert suite.to_run(rows, changed) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "clashes",
    [
        {},
        *({name: value} for name, option in OPTIONS.items() for value in option.values),
        *({"workflow": workflow} for workflow in WORKFLOWS if workflow != "make-graphed-callables"),
        {"workflow": "make-graphed-callables", "training": False},
        {"ddp": True, "fsdp": True},
    ],
    ids=str,
)
def test_one_more_boolean_option_costs_at_most_nine_runs(clashes: dict[str, Any], suite: Any, programs: Any) -> None:
    """Add an option; `clashes` are values of others that it cannot be combined with."""
    wider = cast("Any", namedtuple)("wider", [*Options._fields, "clip"])
    old = {wider(*options, False): program for options, program in programs.items()}
    new = {
        wider(*options, True): program._replace(command=f"{program.command} --clip", text=f"{program.text}# clipped\n")
        for options, program in programs.items()
        if not any(getattr(options, name) == value for name, value in clashes.items())
    }
    rows = receipts_of(old)
    wanted = suite.to_run(rows, old | new)
    assert len(wanted) <= 9
    assert {program.command for program in wanted} <= {program.command for program in new.values()}
    rows += receipts_of({program.command: program for program in wanted})
    covered = frozenset().union(*map(suite.pairwise.pairs, suite.verified(rows, old | new)))
    for options in old | new:
        assert set(combinations(options._asdict().items(), 2)) <= covered


@pytest.mark.slow
@needs_torch
@pytest.mark.usefixtures("on_cpu")
def test_the_suite_runs_programs_side_by_side(suite: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = write(tmp_path).read_text(), write(tmp_path, parity="assert False").read_text()
    checks = good.replace("import torch\n", "import torch\nfrom step import ANSWER\n\nassert ANSWER == 42\n", 1)
    wanted = [suite.Program("good", good, 1, ()), suite.Program("bad", bad, 1, ()), suite.Program("two", good, 2, ())]
    wanted.append(suite.Program("module", checks, 1, (), "ANSWER = 42\n"))
    results = {result["command"]: result for result in suite.run(wanted, 1, 100)}
    assert {name: result["verdict"] for name, result in results.items()} == {"good": "ok", "bad": "failed", "module": "ok"}
    assert (results["module"]["file"], results["module"]["digest"]) == ("check_step.py", wanted[-1].digest)
    assert "two: needs 2 GPUs, here are 1" in capsys.readouterr().err
    assert "step.py:" in results["bad"]["said"]
