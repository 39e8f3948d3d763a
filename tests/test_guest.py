"""Whatever user code does in the guest, the host hears how it ended and nothing of it is left."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import venv
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from cudagraph_skill.capture import host
from cudagraph_skill.capture.guest.processes import descendants, parse_stack
from cudagraph_skill.capture.host import Ended, Guest, run_program
from cudagraph_skill.errors import SkillError

if TYPE_CHECKING:
    from collections.abc import Iterator

GPU = Path(host.__file__).parent / "guest"
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the guest imports torch; CI has it, see conftest.py")


class Trials:
    """A warm guest and the folder of the trials that it is given, on its PYTHONPATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = folder / "site-packages"
        self.packages.mkdir()
        path = os.pathsep.join(map(str, (folder, self.packages)))
        self.guest = Guest(sys.executable, str(folder), {"CUDAGRAPH_SKILL_NO_GPU_NEEDED": "1", "PYTHONPATH": path})
        self.number = 0

    def ask(self, run: str, prepare: str = "pass", deadline: float = 20, **options: Any) -> Ended:
        """Ask for a trial with these bodies of `run` and `prepare`; the guest must hold no process afterwards."""
        self.number += 1
        name = f"trial_{self.number}"
        write(self.folder / f"{name}.py", run, prepare)
        ended = self.guest.ask({"runner": name}, deadline, **options)
        assert descendants(self.pid) == set()
        return ended

    @property
    def pid(self) -> int:
        """Return the pid of the process that forks for each request."""
        keeper = self.guest._tree._process.pid
        return int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])

    def line(self, text: str) -> int:
        """Return the line number of `text` in the latest trial."""
        lines = (self.folder / f"trial_{self.number}.py").read_text().splitlines()
        return next(number for number, line in enumerate(lines, 1) if text in line)


def write(path: Path, run: str, prepare: str = "pass") -> None:
    head = "import ctypes, os, signal, subprocess, sys, threading, time\n\n\n"
    bodies = {"prepare(request)": prepare, "run(request, prepared, report)": run}
    path.write_text(
        head
        + "\n\n".join(
            f"def {name}:\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n" for name, body in bodies.items()
        )
    )


@pytest.fixture(scope="module")
def trials(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trials]:
    if find_spec("torch") is None:
        pytest.skip("the first process of the guest imports torch; CI has it, see conftest.py")
    made = Trials(tmp_path_factory.mktemp("trials"))
    yield made
    made.guest.close()


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def until_gone(pids: list[int], seconds: float) -> list[int]:
    """Wait up to `seconds` for `pids` to end and return those still alive."""
    end = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < end:
        time.sleep(0.01)
    return list(filter(alive, pids))


def functions(ended: Ended) -> list[str]:
    return [frame[2] for frame in ended.ended["stack"]]


# What a trial says, and what it finds around it


def test_ready_says_what_the_interpreter_has(trials: Trials) -> None:
    import torch

    version = ".".join(map(str, sys.version_info[:3]))
    assert trials.guest.ready == {"torch": torch.__version__, "cuda": torch.version.cuda or "", "python": version, "gpus": 0}


def test_a_trial_reports_in_order_and_prints_beside_it(trials: Trials) -> None:
    events: list[dict[str, Any]] = []
    ended = trials.ask(
        """
        report.progress("capturing")
        print("on stdout"); print("on stderr", file=sys.stderr)
        report.step("capture", "ok", "12 nodes", 0.25)
        report.step("replay", "differs", "1 of 8", 1)
        report.result({"verdict": "silent_wrong", "prepared": prepared})
        """,
        "return 7",
        on_event=events.append,
    )
    assert ended.result == {"verdict": "silent_wrong", "prepared": 7}
    assert ended.steps[0] == {"name": "capture", "outcome": "ok", "said": "12 nodes", "seconds": 0.25}
    assert [step["name"] for step in ended.steps] == ["capture", "replay"]
    assert ended.ended == {"how": "done", "detail": "", "stack": [], "left_behind": 0}
    assert ended.output == "on stdout\non stderr\n"
    assert [event["event"] for event in events] == ["progress", "step", "step"]


def test_two_requests_share_the_imported_torch_and_nothing_else(trials: Trials) -> None:
    run = """
    report.result({'torch': 'torch' in sys.modules, 'left': os.environ.get('LEFT'), 'folder': os.getcwd()})
    os.environ['LEFT'] = '1'
    os.chdir('/')
    """
    first, second = (trials.ask(run, "os.environ['LEFT'] = request['runner']") for _ in range(2))
    assert first.result == {"torch": True, "left": f"trial_{trials.number - 1}", "folder": str(trials.folder)}
    assert second.result == {"torch": True, "left": f"trial_{trials.number}", "folder": str(trials.folder)}


def test_a_trivial_trial_takes_little_more_than_two_forks(trials: Trials) -> None:
    took = []
    for _ in range(5):
        started = time.monotonic()
        trials.ask("report.result({})")
        took.append(time.monotonic() - started)
    print(f"a trivial trial takes {min(took) * 1000:.0f} ms, at most {max(took) * 1000:.0f} ms")


PREPARE = "import heavy, own\nreturn [heavy.PID == os.getpid(), own.PID == os.getpid()]"


@pytest.fixture
def packaged(tmp_path: Path) -> Iterator[Trials]:
    """Start a guest with a module of the user's and a package whose text the test writes."""
    if find_spec("torch") is None:
        pytest.skip("the first process of the guest imports torch; CI has it, see conftest.py")
    made = Trials(tmp_path)
    write(tmp_path / "trial.py", "report.result({'anew': prepared})", PREPARE)
    (tmp_path / "own.py").write_text("import os\nPID = os.getpid()\n")
    (made.packages / "heavy").mkdir()
    yield made
    made.guest.close()


def test_an_installed_package_is_imported_once_and_a_module_of_the_user_each_time(packaged: Trials) -> None:
    (packaged.packages / "heavy" / "__init__.py").write_text("import os\nfrom heavy import part\nPID = os.getpid()\n")
    (packaged.packages / "heavy" / "part.py").write_text("print('imported')\n")
    first, second, third = (packaged.guest.ask({"runner": "trial"}, 20) for _ in range(3))
    assert [answer.result for answer in (first, second, third)] == [{"anew": [True, True]}, *[{"anew": [False, True]}] * 2]
    assert [step["said"] for step in first.steps] == ["2 modules of heavy"]
    assert (second.steps, second.output, third.steps) == ([], "", [])
    server = packaged.pid
    packaged.guest.close()
    assert until_gone([server], 5) == []


@pytest.mark.parametrize(
    "text",
    [
        "import os, threading, time\nPID = os.getpid()\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n",
        "import os, sys\nPID = os.getpid()\nos.environ.get('OMP_NUM_THREADS') == '1' and sys.exit(3)\n",
    ],
    ids=["thread", "exit"],
)
def test_a_package_that_may_not_be_kept_is_imported_each_time(packaged: Trials, text: str) -> None:
    (packaged.packages / "heavy" / "__init__.py").write_text(text)
    answers = [packaged.guest.ask({"runner": "trial"}, 20) for _ in range(3)]
    assert [answer.result for answer in answers] == [{"anew": [True, True]}] * 3


@pytest.mark.parametrize("text", ["os.environ['SET'] = '1'", "sys.modules['hidden'] = None"], ids=["variable", "hidden module"])
def test_what_the_user_s_module_sets_before_an_import_counts_each_time(packaged: Trials, text: str) -> None:
    (packaged.packages / "heavy" / "__init__.py").write_text("import os\nPID = os.getpid()\n")
    write(packaged.folder / "trial.py", "report.result({'anew': prepared})", f"{text}\n{PREPARE}")
    answers = [packaged.guest.ask({"runner": "trial"}, 20) for _ in range(3)]
    assert [answer.result for answer in answers] == [{"anew": [True, True]}] * 3


def test_a_package_that_sets_a_variable_itself_is_kept(packaged: Trials) -> None:
    (packaged.packages / "heavy" / "__init__.py").write_text("import os\nPID = os.getpid()\nos.environ['SET'] = '1'\n")
    answers = [packaged.guest.ask({"runner": "trial"}, 20) for _ in range(2)]
    assert [answer.result for answer in answers] == [{"anew": [True, True]}, {"anew": [False, True]}]


class Began(NamedTuple):
    """A user's file, the packages that there are, and whether each of three requests imports `heavy` anew."""

    text: str
    packages: dict[str, str]
    anew: list[bool]


PID = "import os\nPID = os.getpid()\n"
THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n"


@pytest.mark.parametrize(
    "began",
    [
        Began('"""What it does."""\nfrom __future__ import annotations\nimport os, heavy\n', {}, [False] * 3),
        Began("import os\nfrom heavy import PID\nfrom nowhere import nothing\n", {}, [False] * 3),
        Began("import own\nimport heavy\n", {}, [True, False, False]),
        Began("os = 1\nimport heavy\n", {}, [True, False, False]),
        Began("import heavy\n", {"heavy": f"{PID}{THREAD}"}, [True] * 3),
        Began("import heavy\nimport busy\n", {"busy": THREAD}, [True, False, False]),
        Began("import busy\nimport heavy\n", {"busy": THREAD}, [True, True, False]),
        Began("import failing\nimport heavy\n", {"failing": "import heavy\nraise ValueError\n"}, [True, False, False]),
        Began("import heavy\n", {"heavy": f"import json, inner\n{PID}", "inner": "", "../inner": ""}, [True] * 3),
        Began("def broken(:\n", {}, [True, False, False]),
    ],
    ids=lambda began: began.text.partition("\n")[0],
)
def test_the_imports_with_which_a_file_begins_are_kept(packaged: Trials, began: Began) -> None:
    for name, text in {"heavy": PID, **began.packages}.items():
        (packaged.packages / name).mkdir(exist_ok=True)
        (packaged.packages / name / "__init__.py").write_text(text)
    (packaged.folder / "user.py").write_text(began.text)
    request = {"runner": "trial", "file": str(packaged.folder / "user.py")}
    answers = [packaged.guest.ask(request, 20) for _ in range(3)]
    assert [answer.result for answer in answers] == [{"anew": [anew, True]} for anew in began.anew]
    assert any("heavy" in step["said"] for step in answers[0].steps)
    server = packaged.pid
    packaged.guest.close()
    assert until_gone([server], 5) == []


def test_a_hang_in_an_import_with_which_a_file_begins_ends_at_the_deadline(packaged: Trials) -> None:
    (packaged.packages / "heavy" / "__init__.py").write_text("import time\ntime.sleep(99)\n")
    (packaged.folder / "user.py").write_text("import heavy\n")
    ended = packaged.guest.ask({"runner": "trial", "file": str(packaged.folder / "user.py")}, 0.5)
    assert (ended.ended["how"], ended.ended["detail"]) == ("deadline", "0.5 s")
    library, own = (str(path) for path in (packaged.packages / "heavy" / "__init__.py", packaged.folder / "user.py"))
    assert [file for file, _, _ in ended.ended["stack"] if file in (library, own)] == [own, library]
    assert descendants(packaged.pid) == set()
    (packaged.packages / "heavy" / "__init__.py").write_text(PID)
    assert packaged.guest.ask({"runner": "trial"}, 20).result == {"anew": [True, True]}


def test_a_cancel_ends_an_import_with_which_a_file_begins(packaged: Trials) -> None:
    (packaged.packages / "heavy" / "__init__.py").write_text("import time\ntime.sleep(99)\n")
    (packaged.folder / "user.py").write_text("import heavy\n")
    started = time.monotonic()
    request = {"runner": "trial", "file": str(packaged.folder / "user.py")}
    ended = packaged.guest.ask(request, 20, cancelled=lambda: time.monotonic() > started + 0.3)
    assert ended.ended["how"] == "cancelled"
    assert descendants(packaged.pid) == set()


def test_modules_of_the_user_keep_their_names_and_no_folder_of_ours_is_on_the_path(trials: Trials) -> None:
    for name in ("errors", "search", "check", "trial", "host", "zygote", "processes", "start", "tools", "server"):
        (trials.folder / f"{name}.py").write_text("theirs = True\n")
    names = "errors, search, check, trial, host, zygote, processes, start, tools, server"
    ended = trials.ask(f"import {names}\nreport.result({{'theirs': all(m.theirs for m in ({names})), 'path': sys.path}})")
    assert ended.result is not None
    assert ended.result["theirs"]
    folders = [folder for folder in ended.result["path"] if Path(folder).exists()]  # a development install adds a hook's name
    assert [folder for folder in folders if "cudagraph_skill" in folder or folder == str(GPU.parents[2])] == []


def test_user_code_has_the_signals_and_limits_of_a_fresh_process_and_no_orphans_to_adopt(trials: Trials) -> None:
    ended = trials.ask(
        """
        reaper = ctypes.c_int(-1)
        ctypes.CDLL(None).prctl(37, ctypes.byref(reaper), 0, 0, 0)
        report.result({
            "int": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
            "others": [signal.getsignal(number) == signal.SIG_DFL for number in (signal.SIGTERM, signal.SIGCHLD)],
            "reaper": reaper.value,
            "stdin": sys.stdin.read(),
        })
        """
    )
    assert ended.result == {"int": True, "others": [True, True], "reaper": 0, "stdin": ""}


# How a trial can end


def test_a_hang_ends_at_the_deadline_and_its_line_is_known(trials: Trials) -> None:
    started = time.monotonic()
    ended = trials.ask(
        "def wait_for_it():\n    time.sleep(99)  # here\n\nreport.step('capture', 'ok')\nwait_for_it()", deadline=1
    )
    assert time.monotonic() - started < 2
    assert (ended.ended["how"], ended.ended["detail"], ended.ended["left_behind"]) == ("deadline", "1 s", 0)
    assert [step["name"] for step in ended.steps] == ["capture"]
    file, line, function = ended.ended["stack"][-1]
    assert (Path(file).name, line, function) == (f"trial_{trials.number}.py", trials.line("# here"), "wait_for_it")


def test_a_draft_counts_where_no_result_comes(trials: Trials) -> None:
    ended = trials.ask("report.draft({'verdict': 'capture_error', 'said': 'fails'})\ntime.sleep(99)", deadline=1)
    assert ended.result == {"verdict": "capture_error", "said": "fails"}
    ended = trials.ask("report.draft({'verdict': 'capture_error'})\nreport.result({'verdict': 'safe'})")
    assert ended.result == {"verdict": "safe"}


def test_a_hang_in_the_import_is_known_too(trials: Trials) -> None:
    ended = trials.ask("pass", "time.sleep(99)", deadline=0.5)
    assert (ended.ended["how"], functions(ended)[-1]) == ("deadline", "prepare")


@pytest.mark.slow
def test_a_loop_in_c_that_holds_the_interpreter_ends_at_the_deadline(trials: Trials) -> None:
    ended = trials.ask("def spin():\n    ctypes.PyDLL(None).sleep(99)\n\nspin()", deadline=1)
    assert (ended.ended["how"], functions(ended)[-1]) == ("deadline", "spin")
    ended = trials.ask("sum(iter(int, 1))", deadline=1)
    assert (ended.ended["how"], functions(ended)[-1]) == ("deadline", "run")


@pytest.mark.parametrize(("code", "name"), [("ctypes.string_at(0)", "SIGSEGV"), ("os.abort()", "SIGABRT")])
def test_a_crash_has_a_name_and_a_stack(trials: Trials, code: str, name: str) -> None:
    for run, prepare, function in (code, "pass", "run"), ("pass", code, "prepare"):
        ended = trials.ask(run, prepare)
        assert (ended.ended["how"], ended.ended["detail"]) == ("signal", name)
        assert function in functions(ended)


def test_a_crash_in_a_thread_names_that_thread(trials: Trials) -> None:
    run = "def work():\n    ctypes.string_at(0)\n\nt = threading.Thread(target=work)\nt.start()\nt.join()"
    assert "work" in functions(trials.ask(run))


def test_a_stack_names_files_whatever_their_letters(trials: Trials) -> None:
    code = "exec(compile('def wait():\\n    time.sleep(99)\\nwait()', 'café \"☕\" 😀.py', 'exec'), globals())"
    assert trials.ask(code, deadline=0.5).ended["stack"][-1] == ['café "☕" 😀.py', 2, "wait"]


@pytest.mark.parametrize(
    ("code", "detail"),
    [
        ("os._exit(7)", "7"),
        ("os._exit(0)", "0"),
        ("sys.exit(3)", "3"),
        ("sys.exit()", "0"),
        ("sys.exit('give a file')", "give a file"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt: "),
        ("raise ValueError('two\\nlines')", "ValueError: two\nlines"),
    ],
)
def test_an_exit_is_told_with_its_code(trials: Trials, code: str, detail: str) -> None:
    for run, prepare, function in (code, "pass", "run"), ("pass", code, "prepare"):
        ended = trials.ask(run, prepare)
        assert (ended.ended["how"], ended.ended["detail"], ended.result) == ("exit", detail, None)
        assert "_exit" in code or functions(ended)[-1] == function


def test_a_signal_from_outside_is_named(trials: Trials) -> None:
    assert trials.ask("os.kill(os.getpid(), signal.SIGKILL)").ended["detail"] == "SIGKILL"
    assert trials.ask("os.kill(os.getppid(), signal.SIGTERM)\ntime.sleep(9)").ended["detail"] == "SIGTERM"
    assert trials.ask("os.killpg(0, signal.SIGTERM)\ntime.sleep(9)").ended["detail"] == "SIGTERM"
    assert trials.ask("os.kill(os.getpid(), signal.SIGRTMIN + 3)").ended["detail"].startswith("signal ")


def test_handlers_and_ignored_signals_of_the_user_do_not_hold_us(trials: Trials) -> None:
    prepare = """
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, lambda *a: None)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    """
    assert trials.ask("time.sleep(99)", prepare, deadline=0.5).ended["how"] == "deadline"
    assert trials.ask("os._exit(5)", prepare).ended["detail"] == "5"


def test_a_stopped_trial_ends_at_the_deadline(trials: Trials) -> None:
    assert trials.ask("os.kill(os.getpid(), signal.SIGSTOP)", deadline=0.5).ended["how"] == "deadline"
    assert trials.ask("os.kill(os.getppid(), signal.SIGSTOP)\nos._exit(0)", deadline=0.5).ended["how"] == "deadline"


def test_cancelling_ends_a_trial_at_once(trials: Trials) -> None:
    started = time.monotonic()
    ended = trials.ask("time.sleep(99)", cancelled=lambda: time.monotonic() - started > 0.5)
    assert (ended.ended["how"], ended.ended["stack"]) == ("cancelled", [])
    assert time.monotonic() - started < 1.2


@pytest.mark.slow
def test_memory_above_the_bound_ends_a_trial(trials: Trials) -> None:
    hog = "kept = []\nwhile True:\n    kept.append(b'x' * (10 << 20))\n    time.sleep(0.01)"
    ended = trials.ask(hog, memory=1 << 30)
    assert ended.ended["how"] == "memory"
    assert ended.ended["detail"].endswith(" of 1.00 GiB")


@pytest.mark.slow
def test_memory_that_is_filled_fast_is_measured_often(trials: Trials) -> None:
    """At 50 MB a step the bound is passed by less than half of it."""
    ended = trials.ask("kept = []\nwhile True: kept.append(bytearray(b'x') * (50 << 20))", memory=1 << 30)
    assert ended.ended["how"] == "memory"
    assert float(ended.ended["detail"].split()[0]) < 1.5


@pytest.mark.slow
def test_memory_that_a_fork_shares_counts_once(trials: Trials) -> None:
    prepare = "global kept\nkept = b'x' * (700 << 20)"
    assert trials.ask("time.sleep(0.5)", prepare, memory=1200 << 20).ended["how"] == "done"


# What it may leave behind


def test_a_fork_that_returns_neither_reports_nor_goes_on(trials: Trials) -> None:
    run = """
    os.fork()
    report.step("capture", "ok", str(os.getpid()))
    os.fork()
    report.result({"pid": os.getpid()})
    open(f"went_on_{os.getpid()}", "w").close()
    """
    ended = trials.ask(run)
    assert ended.ended["how"] == "done"
    assert ended.result is not None
    assert ended.steps == [{"name": "capture", "outcome": "ok", "said": str(ended.result["pid"]), "seconds": 0.0}]
    assert [path.name for path in trials.folder.glob("went_on_*")] == [f"went_on_{ended.result['pid']}"]
    ended = trials.ask("report.result({})", "os.fork()")
    assert (ended.ended["how"], ended.result) == ("done", {})


@pytest.mark.slow
def test_a_fork_ends_as_it_would_without_us_and_its_crash_is_not_ours(trials: Trials) -> None:
    run = """
    for ending in (sys.exit, os.abort):
        child = os.fork()
        if child == 0:
            ending()
        os.waitpid(child, 0)
    time.sleep(99)
    """
    ended = trials.ask(run, deadline=2)
    assert (ended.ended["how"], ended.ended["left_behind"], ended.ended["stack"][-1][1]) == (
        "deadline",
        0,
        trials.line("sleep(99)"),
    )


@pytest.mark.slow
def test_detached_daemons_are_found_and_killed(trials: Trials) -> None:
    run = """
    for _ in range(3):
        if not os.fork():
            os.setsid()
            if not os.fork():
                for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                    signal.signal(number, signal.SIG_IGN)
                os.write(1, f"daemon {os.getpid()}\\n".encode())  # at once: three write into one pipe
                os.closerange(0, 4096)
                time.sleep(99)
            os._exit(0)
        os.wait()
    subprocess.Popen(["sleep", "99"], start_new_session=True)
    time.sleep(0.5)
    """
    for ending, how in ("report.result({})", "done"), ("os.kill(os.getpid(), 9)", "signal"), ("time.sleep(99)", "deadline"):
        ended = trials.ask(f"{textwrap.dedent(run)}\n{ending}", deadline=2)
        assert (ended.ended["how"], ended.ended["left_behind"]) == (how, 4)
        daemons = [int(line.split()[1]) for line in ended.output.splitlines() if line.startswith("daemon")]
        assert len(daemons) == 3
        assert not any(map(alive, daemons))


def test_a_chain_of_forks_that_flees_is_caught(trials: Trials) -> None:
    run = "while True:\n    if os.fork():\n        os._exit(0) if os.getpid() != main else time.sleep(99)\n    os.setsid()"
    ended = trials.ask(f"main = os.getpid()\n{run}", deadline=0.5)
    assert ended.ended["how"] == "deadline"


def test_user_code_that_closes_every_descriptor_is_told_so(trials: Trials) -> None:
    ended = trials.ask("os.closerange(3, 4096)\nopened = [open('mine', 'wb') for _ in range(300)]\nreport.result({})")
    assert ended.ended["how"] == "exit"
    assert (trials.folder / "mine").read_bytes() == b""


def test_output_is_bounded_and_its_end_kept(trials: Trials) -> None:
    ended = trials.ask("line = 'x' * 99_999\nfor _ in range(2000):\n    print(line)\nprint('last words')\nreport.result({})")
    assert len(ended.output) <= host.TAIL
    assert ended.output.endswith("x\nlast words\n")
    assert trials.ask("report.result({})").output == ""


def test_a_result_larger_than_a_pipe_arrives_whole(trials: Trials) -> None:
    ended = trials.ask("report.result({'long': 'ä' * 1_000_000, 'odd': {1: sys}})")
    assert ended.result is not None
    assert ended.result["long"] == "ä" * 1_000_000


def test_a_report_cut_off_by_a_kill_hides_no_end(trials: Trials) -> None:
    cut = 'os.write(report._fd, b\'{"event": "resu\')\nos.kill(os.getpid(), 9)'
    assert trials.ask(cut).ended["detail"] == "SIGKILL"


def test_a_closed_output_does_not_keep_us_busy(trials: Trials) -> None:
    ended = trials.ask("os.close(1)\nos.close(2)\ntime.sleep(0.3)\nreport.result({})")
    assert (ended.ended["how"], ended.result) == ("done", {})


def test_threads_that_the_import_started_keep_the_trial_in_its_process(trials: Trials) -> None:
    python = "threading.Thread(target=time.sleep, args=(99,), name='loader', daemon=True).start()"
    openmp = "import torch\ntorch.set_num_threads(4)\ntorch.ones(3000, 3000) + 1"
    for prepare, threads in (python, "(loader)"), (openmp, "OpenMP"):
        ended = trials.ask("import torch\n(torch.ones(3000, 3000) + 1).sum()\nreport.result({})", prepare)
        assert (ended.ended["how"], ended.result) == ("done", {})
        assert (ended.steps[0]["name"], ended.steps[0]["outcome"]) == ("fork", "skipped")
        assert threads in ended.steps[0]["said"]
    assert trials.ask("time.sleep(99)", python, deadline=1).ended["how"] == "deadline"
    assert trials.ask("os.abort()", python).ended["detail"] == "SIGABRT"


def test_after_twenty_bad_trials_a_good_one_runs(trials: Trials) -> None:
    count = "report.result({'descriptors': len(os.listdir('/proc/self/fd'))})"  # a trial inherits those of the server
    bad = ["ctypes.string_at(0)", "os._exit(1)", "sys.exit(1)", "os.killpg(0, 9)", "os.kill(os.getppid(), 9)", "os.abort()"]
    before = trials.ask(count).result
    for number in range(20):
        trials.ask(bad[number % len(bad)])
    assert before is not None
    assert trials.ask(count).result == before


# The host


@pytest.mark.slow
@needs_torch
def test_nothing_is_left_whoever_is_killed_first(tmp_path: Path) -> None:
    run = """
    daemon = subprocess.Popen(["sleep", "99"], start_new_session=True)
    open("pids.part", "w").write(f"{os.getpid()} {os.getppid()} {daemon.pid}")
    os.rename("pids.part", "pids")
    time.sleep(99)
    """
    write(tmp_path / "hangs.py", run)
    code = f"""
        from cudagraph_skill.capture.host import Guest
        environment = {{"CUDAGRAPH_SKILL_NO_GPU_NEEDED": "1", "PYTHONPATH": {str(tmp_path)!r}}}
        with Guest({sys.executable!r}, {str(tmp_path)!r}, environment) as guest:
            print(guest._tree._process.pid, flush=True)
            guest.ask({{"runner": "hangs"}}, 99)
        """
    victims = [("host", number) for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)]
    for victim, number in (*victims, ("keeper", signal.SIGKILL), ("server", signal.SIGKILL), ("trial", signal.SIGKILL)):
        environment = {**os.environ, "PYTHONPATH": str(GPU.parents[2])}
        started = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        assert started.stdout is not None
        parent = int(started.stdout.readline())
        while not (tmp_path / "pids").exists():
            time.sleep(0.01)
        pids = [parent, *map(int, (tmp_path / "pids").read_text().split())]
        assert all(map(alive, pids))
        keeper, trial, server, _ = pids
        os.kill({"host": started.pid, "keeper": keeper, "server": server, "trial": trial}[victim], number)
        assert until_gone([pid for pid in pids[1:] if pid != server], 2) == [], victim
        assert until_gone(pids, 5) == [], victim
        started.wait()
        started.stdout.close()
        (tmp_path / "pids").unlink()


@pytest.mark.slow
@needs_torch
def test_closing_twice_is_safe_and_asking_after_it_is_told(tmp_path: Path) -> None:
    guest = Trials(tmp_path).guest
    guest.close()
    guest.close()
    with pytest.raises(SkillError, match="start another"):
        guest.ask({}, 1)


@needs_torch
def test_a_guest_that_dies_is_told_once_and_asked_no_more(tmp_path: Path) -> None:
    trials = Trials(tmp_path)
    daemon = 'daemon = subprocess.Popen(["/bin/sleep", "99"], start_new_session=True, env={})\nprint("daemon", daemon.pid)'
    write(tmp_path / "kills.py", f"{daemon}\nos.kill({trials.pid}, signal.SIGKILL)\ntime.sleep(99)")
    ended = trials.guest.ask({"runner": "kills"}, 9)
    (left,) = [int(line.split()[1]) for line in ended.output.splitlines() if line.startswith("daemon")]
    assert until_gone([left], 5) == []
    assert ended.ended == {"how": "exit", "detail": "SIGKILL", "stack": [], "left_behind": 0}
    with pytest.raises(SkillError, match="start another"):
        trials.guest.ask({"runner": "kills"}, 9)
    trials.guest.close()


@pytest.mark.slow
@needs_torch
def test_output_is_forwarded_as_it_comes(tmp_path: Path) -> None:
    write(tmp_path / "prints.py", "print('one')\nreport.progress('between')\ntime.sleep(0.3)\nprint('two')")
    seen: list[Any] = []
    environment = {"CUDAGRAPH_SKILL_NO_GPU_NEEDED": "1", "PYTHONPATH": str(tmp_path), "PYTHONUNBUFFERED": ""}
    with Guest(sys.executable, str(tmp_path), environment, seen.append) as guest:
        guest.ask({"runner": "prints"}, 9)
    assert seen[-2:] == [b"one\n", b"two\n"]  # torch may have warned before


def test_a_machine_that_will_not_do_is_told_in_one_sentence(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare")
    bare, missing = str(tmp_path / "bare/bin/python"), str(tmp_path / "none/python")
    (tmp_path / "text").write_text("no program\n")
    (tmp_path / "text").chmod(0o755)
    told = [
        (missing, f"{missing}: No such file or directory; name the Python that has torch with `--python`"),
        (str(tmp_path), f"{tmp_path}: Permission denied; name the Python that has torch with `--python`"),
        (str(tmp_path / "text"), f"{tmp_path / 'text'}: Exec format error; name the Python that has torch with `--python`"),
        (
            "/bin/false",
            "/bin/false ended before it was ready (exit code 1): name a Python 3.10 or newer that has torch with `--python`",
        ),
        (bare, f"{bare} has no torch: name the Python that has it with `--python`, or install torch >=2.4 for this one"),
    ]
    for python, sentence in told:
        with pytest.raises(SkillError) as error:
            Guest(python, str(tmp_path))
        assert (str(error.value), error.value.exit_code) == (sentence, 3)
    with pytest.raises(SkillError, match="no such folder"):
        Guest(bare, str(tmp_path / "none"))


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.8", "3.9"])
def test_a_python_that_is_too_old_says_so(tmp_path: Path, version: str) -> None:
    pythons = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
    if not pythons:
        pytest.skip(f"this machine has no Python {version}")
    with pytest.raises(SkillError, match=r"3\.10 or newer") as error:
        Guest(str(pythons[0]), str(tmp_path))
    assert error.value.exit_code == 3
    assert "\n" not in str(error.value)


@pytest.mark.slow
@needs_torch
def test_without_a_gpu_the_guest_says_so(tmp_path: Path) -> None:
    with pytest.raises(SkillError, match=r"built without CUDA|sees no GPU") as error:
        Guest(sys.executable, str(tmp_path), {"CUDA_VISIBLE_DEVICES": "", "CUDAGRAPH_SKILL_NO_GPU_NEEDED": ""})
    assert error.value.exit_code == 3


def test_a_torch_that_is_broken_or_too_old_is_told(tmp_path: Path) -> None:
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    for source, sentence in (
        ("__version__ = '2.3.1+cu121'", r"has torch 2\.3\.1\+cu121, and the check needs torch 2.4 or newer"),
        ("raise OSError('libcudart.so.13: cannot\\nopen')", "OSError: libcudart.so.13: cannot open"),
        ("import numpy_that_is_missing", "No module named 'numpy_that_is_missing'"),
        ("import os; os._exit(4)", r"ended before it was ready \(exit code 4\)"),
        ("print('about to crash'); import ctypes; ctypes.string_at(0)", r"\(SIGSEGV, saying: about to crash\)"),
    ):
        (tmp_path / "torch.py").write_text(source)
        with pytest.raises(SkillError, match=sentence):
            Guest(sys.executable, str(tmp_path), environment)


@pytest.mark.parametrize(
    ("count", "sentence"),
    [
        ("raise OSError('NVML is gone')", r"torch sees no GPU \(NVML is gone\): run this"),
        ("return 0", r"torch sees no GPU \(Found no NVIDIA driver\): run this"),
        ("ctypes.string_at(0)", r"torch sees no GPU \(asking the driver for them crashed\): run this"),
        ("return 2", ""),
    ],
)
def test_gpus_are_counted_in_a_fork(tmp_path: Path, count: str, sentence: str) -> None:
    (tmp_path / "torch.py").write_text(
        f"""import ctypes
__version__ = "2.9.0+cu130"
class version:
    cuda = "13.0"
class cuda:
    def device_count():
        {count}
    def init():
        raise RuntimeError("Found no NVIDIA driver.\\nInstall one.")
"""
    )
    environment = {"PYTHONPATH": str(tmp_path), "CUDAGRAPH_SKILL_NO_GPU_NEEDED": ""}
    if sentence:
        with pytest.raises(SkillError, match=sentence):
            Guest(sys.executable, str(tmp_path), environment)
    else:
        with Guest(sys.executable, str(tmp_path), environment) as guest:
            assert guest.ready["gpus"] == 2


def test_an_interpreter_is_found_from_where_the_caller_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    venv.create(tmp_path / "bare")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SkillError, match="has no torch"):
        Guest("bare/bin/python", "other")


# The user's own program, which has not torch imported


def program(folder: Path, body: str, deadline: float = 20, **options: Any) -> Ended:
    """Run a watcher with this body in place of ours; it is given `request` and `report`."""
    write(folder / "watcher.py", "pass")
    path = folder / "watcher.py"
    path.write_text(
        path.read_text().replace(
            "run(request, prepared, report):\n    pass", f"run(request, report):\n{textwrap.indent(body, '    ')}"
        )
    )
    return run_program(
        sys.executable,
        ["train.py", "--lr", "1"],
        str(folder),
        deadline=deadline,
        request={"runner": "watcher"},
        environment={"PYTHONPATH": str(folder)},
        **options,
    )


def test_a_program_starts_without_torch_and_ends_as_python_ends(tmp_path: Path) -> None:
    body = """import atexit
atexit.register(print, "exit handler")
threading.Thread(target=lambda: (time.sleep(0.2), print("thread"))).start()
report.result({"torch": "torch" in sys.modules, "arguments": request["arguments"]})"""
    ended = program(tmp_path, body)
    assert ended.result == {"torch": False, "arguments": ["train.py", "--lr", "1"]}
    assert ended.ended == {"how": "done", "detail": "", "stack": [], "left_behind": 0}
    assert ended.output == "thread\nexit handler\n"


@pytest.mark.slow
def test_a_program_is_bounded_like_a_trial(tmp_path: Path) -> None:
    ended = program(tmp_path, "subprocess.Popen(['sleep', '99'], start_new_session=True)\ntime.sleep(99)", 1)
    assert (ended.ended["how"], ended.ended["left_behind"], functions(ended)[-1]) == ("deadline", 1, "run")
    assert program(tmp_path, "ctypes.string_at(0)").ended["detail"] == "SIGSEGV"
    assert program(tmp_path, "sys.exit('no data')").ended["detail"] == "no data"
    assert program(tmp_path, "os._exit(3)").ended["detail"] == "3"
    assert program(tmp_path, "time.sleep(99)", cancelled=lambda: True).ended["how"] == "cancelled"
    assert program(tmp_path, "threading.Thread(target=time.sleep, args=(99,)).start()", 1).ended["how"] == "deadline"


def test_an_interpreter_built_for_an_old_glibc_will_do(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import os\ndel os.memfd_create, os.pidfd_open\n")
    assert functions(program(tmp_path, "time.sleep(99)", 0.5))[-1] == "run"
    assert program(tmp_path, "report.result({'has': hasattr(os, 'pidfd_open')})").result == {"has": False}


def test_a_fork_of_a_program_goes_on_in_silence(tmp_path: Path) -> None:
    body = """
child = os.fork()
report.step("capture", "ok")
if child == 0:
    print("the worker works", flush=True)
else:
    os.wait()
    report.result({})"""
    ended = program(tmp_path, body)
    assert (len(ended.steps), ended.output, ended.ended["how"]) == (1, "the worker works\n", "done")


# The code


def test_the_guest_needs_python_3_10_torch_and_itself_only() -> None:
    for path in GPU.glob("*.py"):
        tree = ast.parse(path.read_text(), feature_version=(3, 6) if path.name == "start.py" else (3, 10))
        names = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        names += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        assert not {"tomllib", "mcp", "yaml"} & set(names), path


def test_a_stack_is_that_of_the_thread_that_matters() -> None:
    text = """Timeout (0:00:01)!
Thread 0x0000000000000002 [loader] (most recent call first):
  File "other.py", line 1 in work

Thread 0x0000000000000001 (most recent call first):
  File "inner.py", line ??? in f
  File "outer.py", line 2 in <module>
"""
    outer = [["outer.py", 2, "<module>"], ["inner.py", 0, "f"]]
    assert parse_stack(text, 1) == outer
    assert parse_stack(text, 5) == outer
    assert parse_stack(text, 2) == [["other.py", 1, "work"]]
    crash = (
        'Fatal Python error: Aborted\n\nCurrent thread 0x02 [main] (most recent call first):\n  File "crash.py", line 3 in g\n'
    )
    assert parse_stack(text + crash, 1) == [["crash.py", 3, "g"]]
    assert parse_stack(text + crash.replace('  File "crash.py", line 3 in g', "  <no Python frame>"), 1) == outer
    assert json.dumps(parse_stack("", 1)) == "[]"


FORGED = [
    '{"event": "unfit"}',
    '{"event": ["step"]}',
    '{"event": "step", "name": 1}',
    '{"event": "ended"}',
    "[" * 200_000,
    "nothing",
]


def test_what_else_is_written_into_the_pipe_is_left_out_and_counted(trials: Trials) -> None:
    lines = "".join(f"{line}\n" for line in FORGED)
    ended = trials.ask(f"os.write(report._fd, {lines!r}.encode())\nreport.result({{'verdict': 'safe'}})", deadline=30)
    assert ended.result == {"verdict": "safe"}
    assert ended.ended["unread"] == len(FORGED)
    assert ended.ended["how"] == "done"
