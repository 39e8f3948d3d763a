"""The `skill` command as a person and as a program meet it."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cudagraph_skill import __version__, cli
from cudagraph_skill.corpus.rank import MAX_CHARACTERS

ROOT = Path(__file__).resolve().parent.parent
LOCATION = re.compile(r"^(references/[\w-]+\.md|SKILL\.md):\d+: .+ > .+")


def _skill(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    try:
        code = cli.main(arguments)
    except SystemExit as stop:  # argparse leaves so after --help and --version
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def test_an_answer_opens_with_path_and_line_and_ends_with_the_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill("search", "why", "warm", "up", "before", "capture", capsys=capsys)
    assert (code, err) == (0, "")
    assert LOCATION.match(out)
    assert sum(bool(LOCATION.match(line)) for line in out.splitlines()) == 3
    assert out.splitlines()[-1].startswith("next: skill ")


def test_the_line_that_is_printed_is_the_headings_line(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _skill("search", "graph_pool_handle", "--limit", "1", capsys=capsys)
    path, line, rest = out.splitlines()[0].split(":", 2)
    text = (ROOT / path).read_text().splitlines()[int(line) - 1]
    assert text.lstrip("# ") == rest.rpartition(" > ")[2].strip() or text.lstrip("# ") in rest


def test_the_next_command_works(capsys: pytest.CaptureFixture[str]) -> None:
    import shlex

    for question in ("share a memory pool", "capture_error_mode"):
        _, out, _ = _skill("search", question, "--max-tokens", "150", capsys=capsys)
        command = shlex.split(out.splitlines()[-1].removeprefix("next: skill "))
        code, out, _ = _skill(*command, capsys=capsys)
        assert code == 0
        assert out


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Write a user's own Markdown, which every test of this file may search: an index with the references takes a second."""
    folder = tmp_path_factory.mktemp("own")
    (folder / "own.md").write_text("# Zebra policy\nZebras are never captured on Tuesdays.\n\n# Zebra feeding\nZebras eat.\n")
    return str(folder)


def test_the_next_command_keeps_the_options_of_this_one(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _skill("search", "zebra", "--limit", "1", "--max-tokens", "90", "--corpus", own, capsys=capsys)
    assert out.splitlines()[-1] == f"next: skill search zebra --limit 1 --max-tokens 90 --page 2 --corpus {own}"
    _, out, _ = _skill("read", f"{own}/own.md", "--corpus", own, capsys=capsys)
    assert out.splitlines()[-1] == f"next: skill read '{own}/own.md#zebra-feeding' --corpus {own}"


def test_the_next_command_names_the_program_that_was_called(tmp_path: Path) -> None:
    module = _process(sys.executable, "-m", "cudagraph_skill", "search", "pool")
    assert b"\nnext: python -m cudagraph_skill " in module.stdout
    launcher = _process(sys.executable, str(ROOT / "tools" / "search.py"), "pool")
    assert f"\nnext: python {ROOT}/tools/".encode() in launcher.stdout
    (tmp_path / "a folder").symlink_to(ROOT)
    launcher = _process(sys.executable, str(tmp_path / "a folder" / "tools" / "recommend.py"))
    assert f"\nnext: python '{tmp_path}/a folder/tools/scaffold.py' --workflow".encode() in launcher.stdout


def test_a_command_that_procps_hides_is_spelled_by_its_other_name(tmp_path: Path) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    for folder, names in ((own, ("skill", "cudagraph-skill")), (other, ("skill",))):
        folder.mkdir()
        for name in names:
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
    start = "import sys; sys.argv[0] = sys.argv.pop(1); from cudagraph_skill.cli import main; sys.exit(main())"

    def spelled(name: str, path: str, *arguments: str, **more: str) -> str:
        command = [sys.executable, "-c", start, str(own / name), *arguments]
        environment = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "tools"), **more}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout

    ask = ("recommend", "--training")
    assert "next: skill scaffold " in spelled("skill", f"{own}:{other}", *ask)
    assert "next: cudagraph-skill scaffold " in spelled("cudagraph-skill", f"{own}:{other}", *ask)
    (own / "skill").rename(own / "away")
    assert "next: cudagraph-skill scaffold " in spelled("skill", f"{other}:{own}", *ask)
    assert f"next: {own}/skill scaffold " in spelled("skill", str(other), *ask)
    uvx = own / "archive-v0" / "bin"
    uvx.mkdir(parents=True)
    assert re.search(
        r"next: uvx (--from \S+ )?cudagraph-skill scaffold ", spelled("archive-v0/bin/skill", str(uvx), *ask, UV="uv")
    )
    text = spelled("cudagraph-skill", f"{other}:{own}", "errors", "--help")
    assert "usage: cudagraph-skill errors " in text
    assert "example: python train.py 2>&1 | cudagraph-skill errors\n" in text
    assert " skill errors" not in text


def test_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("search", "--json", "--limit", "2", "replay", capsys=capsys)
    data = json.loads(out)
    assert code == 0
    assert len(data["results"]) == 2
    assert set(data["results"][0]) == {"path", "heading", "lines", "text", "score"}
    assert data["next"].startswith("skill ")


def test_nothing_found_is_exit_1_with_nearest_headings(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill("search", "how long to boil eggs", capsys=capsys)
    assert (code, out) == (1, "")
    assert err.startswith("nothing found")
    code, out, _ = _skill("search", "--json", "how long to boil eggs", capsys=capsys)
    assert code == 1
    assert json.loads(out)["results"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [(("help",), "usage: skill"), (("help", "check"), "skill check [-h]"), (("version",), f"skill {__version__}\n")],
)
def test_help_is_a_command_too(words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    assert ended.value.code == 0
    assert says in capsys.readouterr().out


def test_a_flag_of_another_program_can_be_searched(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("search", "--cuda-graph-impl", capsys=capsys)
    assert code == 0
    assert "cuda-graph-impl" in out


def test_full_gives_whole_sections(capsys: pytest.CaptureFixture[str]) -> None:
    _, cut, _ = _skill("search", "warm-up", "--max-tokens", "60", capsys=capsys)
    _, full, _ = _skill("search", "warm-up", "--full", capsys=capsys)
    assert len(full) > len(cut)
    assert "[…]" not in full


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["search"], "empty"),
        (["search", ""], "empty"),
        (["search", "x" * (MAX_CHARACTERS + 1)], "characters"),
        (["search", "\udcff\udcfe\x01\x02"], "binary"),
        (["search", "a", "--limit", "0"], "1 or more"),
        (["search", "a", "--limit", "many"], "whole number"),
        (["search", "a", "--max-tokens", "5"], "is 5, it must be 50 or more and at most 999999"),
        (["search", "a", "--max-tokens", "-5"], "is -5, it must be 50 or more"),
        (["search", "a", "--max-tokens", "1e3"], "whole number"),
        (["search", "a", "--limit", "1234567890"], "is 1234567890, it must be"),
        (["search", "a", "--limt", "3"], "did you mean --limit"),
        (["search", "a", "--full", "--max-tokens", "300"], "not allowed with"),
        (["search", "a", "--corpus", "/proc/no-such-folder"], "no such folder"),
        (["serch", "a"], "did you mean `skill search`"),
        (["why is my replay wrong"], "skill search"),
        (["read"], "required"),
        (["search", "a", "--limit", "9" * 400], "at most 999999"),
        (["search", "\udcff" * 9 + "abc"], "binary"),
        (["read", "SKILL.md", "SKILL.md"], "one argument too many"),
        (["completion", "ksh"], "bash"),
        (["errors", " "], "the log is empty"),
        (["errors", "a", "--file", "b"], "not both"),
        (["errors", "-", "a"], "give no other text"),
        (["errors", "--file", ""], "name a log that can be read"),
        (["explain", " "], "the name is empty"),
        (["errors", "--fil", "b", "--jason"], "did you mean --json"),
        (["-v"], "there is no option -v"),
        (["--verison"], "did you mean --version?"),
        (["--full", "search", "x"], "write `skill search --full`"),
        (["check", "--watch", "-"], "--watch"),
    ],
)
def test_misuse_is_one_sentence_and_exit_2(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill(*arguments, capsys=capsys)
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_misuse_is_json_for_those_who_asked_for_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("search", "", "--json", capsys=capsys)
    assert code == 2
    assert "empty" in json.loads(out)["error"]


def test_an_unreadable_corpus_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "loop.md").symlink_to(tmp_path / "loop.md")
    code, _, err = _skill("search", "a", "--corpus", str(tmp_path), capsys=capsys)
    assert code == 2
    assert "Traceback" not in err


def test_a_users_own_markdown_is_searched_too(own: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("search", "zebra tuesdays", "--corpus", own, capsys=capsys)
    assert code == 0
    assert out.startswith(f"{own}/own.md:1: Zebra policy")
    code, out, _ = _skill("read", f"{own}/own.md#zebra-policy", "--corpus", own, capsys=capsys)
    assert "Tuesdays" in out


def test_notes_about_a_users_files_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bad.md").write_text("---\n: : [\n---\n# Zebra\nstripes\n")
    code, out, err = _skill("search", "zebra stripes", "--corpus", str(tmp_path), capsys=capsys)
    assert code == 0
    assert "stripes" in out
    assert "YAML" in err


@pytest.mark.parametrize("ref", ["SKILL.md#requirements", "SKILL#Requirements", "SKILL.md:35", "SKILL.md#requ"])
def test_read_takes_the_forms_that_people_type(ref: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("read", ref, capsys=capsys)
    assert code == 0
    assert "| PyTorch |" in out


def test_read_of_a_file_lists_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("read", "SKILL.md", capsys=capsys)
    assert code == 0
    assert "Requirements" in out
    assert "| PyTorch |" not in out


@pytest.mark.parametrize(
    ("ref", "says"),
    [("SKILL.md#requirments", "nearest"), ("SKILL.md:99999", "past its end"), ("nowhere.md", "no file or heading")],
)
def test_read_of_what_is_not_there_is_exit_1(ref: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill("read", ref, capsys=capsys)
    assert (code, out) == (1, "")
    assert says in err


@pytest.mark.parametrize(
    ("ref", "meant"),
    [
        ("references/stream.md", "references/streams.md"),
        ("stream", "references/streams.md"),
        ("skill.md", "SKILL.md"),
        ("references/errors_capture.md:7", "references/errors-capture.md"),
        ("references/stream.md#joins", "references/streams.md#joining-forked-streams"),
        ("jonining-forked-streams", "references/streams.md#joining-forked-streams"),
    ],
)
def test_a_near_miss_of_a_file_or_heading_names_what_was_meant(
    ref: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = _skill("read", ref, capsys=capsys)
    assert (code, out) == (1, "")
    assert f"no file or heading `{ref}`; did you mean {meant}" in err
    assert f"next: skill read {meant}" in err.replace("'", "")


@pytest.mark.parametrize(("ref", "then"), [("join forked", "search 'join forked'"), ("references/", "read SKILL.md")])
def test_what_nothing_comes_near_to_is_searched_for(ref: str, then: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = _skill("read", ref, capsys=capsys)
    assert "files: SKILL.md, references/" in err
    assert err.endswith(f"next: skill {then}\n")


def test_a_place_with_a_column_is_that_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert _skill("read", "SKILL.md:30:5:", capsys=capsys) == _skill("read", "SKILL.md:30", capsys=capsys)


@pytest.mark.parametrize("ref", ["SKILL.md:" + "9" * 5000, "x" * 10**6])
def test_read_of_absurd_references_is_exit_1(ref: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _skill("read", ref, capsys=capsys)
    assert code == 1
    assert len(err) < 6000


LOG = """\
Traceback (most recent call last):
  File "train.py", line 41, in step
    scale = loss.item()
torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing
"""


def test_errors_names_cause_evidence_fix_place_and_next_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill("errors", LOG, capsys=capsys)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert re.match(r"1\. sync-op-during-capture \((high|medium) confidence\)  references/errors-\w+\.md:\d+", lines[0])
    assert any(line.startswith("   seen: line ") for line in lines)
    assert any(line.startswith("   fix: ") for line in lines)
    assert "your code: train.py:41 in step" in lines
    assert lines[-1].startswith("next: ")
    assert "train.py" in lines[-1]
    code, out, _ = _skill(*lines[-2].removeprefix("more: skill ").split(), capsys=capsys)
    assert code == 0


def test_errors_as_json_has_the_documented_keys(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = _skill("errors", "--json", LOG, capsys=capsys)
    data = json.loads(out)
    assert set(data["diagnoses"][0]) == {"id", "cause", "why", "fix", "confidence", "see", "next"}
    assert data["where"] == "train.py:41 in step"


def test_a_log_of_another_field_is_exit_1(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill("errors", "ModuleNotFoundError: No module named 'numpy'", capsys=capsys)
    assert (code, out) == (1, "")
    assert err.startswith("No CUDA-graph error recognised. ")
    code, out, _ = _skill("errors", "--json", "ModuleNotFoundError: No module named 'numpy'", capsys=capsys)
    assert code == 1
    assert json.loads(out)["diagnoses"] == []


def test_a_log_comes_from_a_file_a_pipe_or_an_argument(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(LOG.encode() + b"\xff\0")
    _, told, _ = _skill("errors", LOG, capsys=capsys)
    _, read, _ = _skill("errors", "--file", str(path), capsys=capsys)
    assert read == told
    _, named, _ = _skill("errors", str(path), capsys=capsys)
    assert named == told
    for arguments in ((), ("-",), ("--file", "-")):
        done = _process(sys.executable, "-m", "cudagraph_skill", "errors", *arguments, input=LOG.encode())
        assert done.stdout.decode().replace("python -m cudagraph_skill ", "skill ").splitlines()[:-2] == told.splitlines()[:-2]


@pytest.mark.parametrize("path", ["nothing-there.log", "."])
def test_a_log_file_that_cannot_be_read_is_one_sentence(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill("errors", "--file", path, capsys=capsys)
    assert (code, out) == (2, "")
    assert f"--file {path}: " in err
    assert err.count("\n") == 1


@pytest.mark.slow
def test_both_ends_of_a_huge_log_are_read() -> None:
    noise = b"step 1 loss 2.0\n" * 3_000_000
    done = _process(sys.executable, "-m", "cudagraph_skill", "errors", input=noise + LOG.encode())
    assert done.returncode == 0
    assert b"MiB" in done.stderr


@pytest.mark.parametrize(
    "name", ["906", "CUDA error 906", "cudaErrorStreamCaptureImplicit", "capture-legacy-stream", "`Capture-Legacy-Stream`"]
)
def test_explain_knows_numbers_enum_names_and_ids(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("explain", name, capsys=capsys)
    assert code == 0
    assert LOCATION.match(out)
    assert "cudaErrorStreamCaptureImplicit" in out


def test_explain_knows_causes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("explain", "nccl-watchdog", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["path"] == "references/causes-capture.md"


@pytest.mark.parametrize("name", ["CG201", "device-value-read", "cg201-device-value-read", "CG201 device-value-read"])
def test_explain_knows_hazards(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("explain", name, capsys=capsys)
    assert code == 0
    assert out.startswith("references/hazards.md:")
    assert out.splitlines()[0].endswith("> CG201 device-value-read")
    assert "**Fix**" in out


def test_explain_of_a_name_that_a_cause_and_a_hazard_share_shows_the_cause_and_names_the_hazard(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, out, _ = _skill("explain", "unregistered-generator", capsys=capsys)
    assert out.startswith("references/causes-capture.md:")
    assert out.splitlines()[-1] == "also: skill explain CG604"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("nccl-watchdogs", "nccl-watchdog"),
        ("CG2011", "CG201"),
        ("CG1", "CG101, CG102, CG103"),
        ("device-value-reads", "device-value-read"),
        ("cudaErrorStreamCapture", "cudaErrorStreamCaptureInvalidated"),
    ],
)
def test_explain_of_what_is_not_there_names_the_nearest(name: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill("explain", name, capsys=capsys)
    assert (code, out) == (1, "")
    assert near in err.partition("nearest: ")[2]


@pytest.mark.parametrize("typed", ["CUDA error: 901", "cuda error 901", "CUDA 901", "Error code: 901", "901:"])
def test_a_number_is_explained_however_it_was_copied(typed: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _skill("explain", typed, capsys=capsys) == _skill("explain", "901", capsys=capsys)


def test_a_log_that_is_not_there_is_no_error_text(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = _skill("errors", "train.log", capsys=capsys)
    assert (code, err) == (
        2,
        "skill errors: there is no file train.log: name a log that can be read, or give the error text\n",
    )
    code, _, err = _skill("errors", "901", capsys=capsys)
    assert code == 1
    assert err.endswith("; what a number or a name means: skill explain 901\n")


@pytest.mark.parametrize("symptom", ["Warum ist mein Graph so langsam", "捕获失败怎么办"])
def test_a_symptom_in_another_language_is_asked_for_in_english(symptom: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = _skill("errors", symptom, capsys=capsys)
    assert (code, out) == (1, "")
    assert err.endswith("; the index of errors is in English: describe what goes wrong in English\n")


def test_who_gives_a_notebook_without_an_error_is_told_what_reads_its_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.ipynb"
    cell = {"cell_type": "code", "source": "1 + 1", "outputs": [{"output_type": "stream", "text": "2\n"}]}
    path.write_text(json.dumps({"cells": [cell]}), encoding="utf-8")
    code, out, err = _skill("errors", str(path), capsys=capsys)
    assert (code, out) == (1, "")
    assert err.endswith(f"the cells are read by skill check {path}\n")


def test_bytes_that_are_no_text_in_a_question_are_overlooked(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("search", "capture fails in backward \udcff", "--json", capsys=capsys)
    assert code == 0
    assert json.loads(out)["results"]


def test_what_a_user_typed_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _, _, err = _skill("\x1b]0;evil\a", capsys=capsys)
    assert "\x1b" not in err


def test_version_and_help_teach(capsys: pytest.CaptureFixture[str]) -> None:
    assert _skill("--version", capsys=capsys)[1] == f"skill {__version__}\n"
    commands = (
        "search",
        "read",
        "errors",
        "explain",
        "check",
        "map",
        "decide",
        "tune",
        "bench",
        "config",
        "recommend",
        "scaffold",
        "serve",
        "install",
        "doctor",
        "completion",
    )
    for arguments in ((), ("--help",), *((name, "--help") for name in commands)):
        code, out, _ = _skill(*arguments, capsys=capsys)
        assert code == 0
        assert "example: " in out
        assert "exit codes: 0" in out


def test_the_version_has_a_short_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["-V"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"skill {__version__}\n"


def test_help_names_the_exit_codes_of_its_own_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["recommend", "--help"])
    out = capsys.readouterr().out
    assert "exit codes: 0 a recommendation" in out
    assert "verified" not in out


def test_explain_without_an_id_lists_all_ids(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("explain", capsys=capsys)
    assert code == 0
    for line in ("errors:", "  unjoined-side-stream", "causes:", "hazards:", "  CG201 device-value-read"):
        assert f"{line}\n" in out


def test_completion_for_fish_has_commands_options_ids_and_workflows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("completion", "fish", capsys=capsys)
    assert code == 0
    lines = out.splitlines()
    assert all(line.startswith("complete -c skill ") for line in lines)
    assert any("-a search" in line for line in lines)
    assert any("__fish_seen_subcommand_from check" in line and "-l watch -d" in line for line in lines)
    assert any("__fish_seen_subcommand_from explain" in line and "CG201" in line for line in lines)
    assert any("__fish_seen_subcommand_from scaffold" in line and "manual-over-compile" in line for line in lines)
    assert any("__fish_seen_subcommand_from map" in line and "-l target -r" in line for line in lines)
    assert "SUPPRESS" not in out


def test_completion_for_bash_has_ids_and_workflows(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("completion", "bash", capsys=capsys)
    assert code == 0
    assert "CG201" in out
    assert "manual-over-compile" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_the_commands(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = _skill("completion", shell, capsys=capsys)
    assert code == 0
    assert "search" in out


def _process(*command: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'server'}"}
    return subprocess.run(command, capture_output=True, timeout=60, env=environment, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_stdin_is_a_question() -> None:
    done = _process(
        sys.executable, "-m", "cudagraph_skill", "search", "-", input=b"\xff\xfecapture fails in backward with error 901"
    )
    assert done.returncode == 0


def test_a_reader_that_leaves_early_is_no_error() -> None:
    done = _process("sh", "-c", f"{sys.executable} -m cudagraph_skill search capture --full --limit 200 | head -n 1")
    assert done.stderr == b""


def test_a_full_disk_and_a_closed_stdin_are_one_sentence() -> None:
    done = _process("sh", "-c", f"{sys.executable} -m cudagraph_skill search capture > /dev/full")
    assert (done.returncode, done.stderr.count(b"\n")) == (3, 1)
    for arguments in ("scaffold bad --json", "--help"):
        done = _process("sh", "-c", f"PYTHONUNBUFFERED= {sys.executable} -m cudagraph_skill {arguments} > /dev/full")
        assert (done.returncode, b"Traceback" in done.stderr) == (3, False)
        assert done.stderr.endswith(b"No space left on device: standard output\n")
    done = _process("sh", "-c", f"{sys.executable} -m cudagraph_skill scaffold bad 2> /dev/full")
    assert done.returncode == 2
    done = _process("sh", "-c", f"{sys.executable} -m cudagraph_skill search - <&-")
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)


def test_a_closed_stdout_is_no_traceback() -> None:
    done = _process("sh", "-c", f"{sys.executable} -m cudagraph_skill search capture >&-")
    assert b"Traceback" not in done.stderr


def test_a_terminal_that_knows_ascii_only_gets_its_answer() -> None:
    done = _process("sh", "-c", f"PYTHONIOENCODING=ascii {sys.executable} -m cudagraph_skill search capture --max-tokens 60")
    assert (done.returncode, done.stderr) == (0, b"")


def test_colour_is_for_terminals_only() -> None:
    command = [sys.executable, "-m", "cudagraph_skill", "search", "pool"]
    assert b"\x1b[" not in _process(*command).stdout
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tools"), "TERM": "xterm"}
    environment.pop("NO_COLOR", None)
    subprocess.run(command, stdout=theirs, env=environment, check=True)
    assert b"\x1b[1m" in os.read(ours, 4096)


def test_launchers_work_from_any_folder_and_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(ROOT)
    for launcher, argument in (
        ("search.py", "pool"),
        ("read.py", "SKILL.md#requirements"),
        ("errors.py", "capturing stream has unjoined work"),
        ("explain.py", "906"),
        ("scaffold.py", "--json"),
        ("recommend.py", "--fp8"),
    ):
        done = subprocess.run(
            [sys.executable, tmp_path / "link" / "tools" / launcher, argument], cwd=tmp_path, capture_output=True, check=False
        )
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr


def test_a_log_leads_to_the_static_check_of_its_frame_by_a_command_that_works(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text("class Net:\n    def forward(self, x):\n        return x / x.max().item()\n")
    log = (
        'Traceback (most recent call last):\n  File "net.py", line 3, in forward\n    return x / x.max().item()\n'
        "torch.AcceleratorError: CUDA error: operation not permitted when stream is capturing\n"
    )
    launcher = [sys.executable, str(ROOT / "tools" / "errors.py")]
    done = subprocess.run(launcher, input=log, cwd=tmp_path, capture_output=True, text=True, check=True)
    command = done.stdout.splitlines()[-1].removeprefix("next: ").split()
    assert command == ["python", f"{ROOT}/tools/check.py", "net.py:Net.forward"]
    done = subprocess.run([sys.executable, *command[1:]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stdout.startswith("net.py:3:20: CG201 error ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "arguments", "start"),
    [
        ("search", ["does dropout work inside a graph"], "references/correctness.md:"),
        ("read", ["SKILL.md#requirements"], "SKILL.md:"),
        ("explain", ["906"], "references/errors-capture.md:"),
        ("errors", ["CUDA error: capturing stream has unjoined work"], "1. unjoined-side-stream"),
    ],
)
def test_a_bare_clone_answers_with_the_standard_library(
    launcher: str, arguments: list[str], start: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-S", str(ROOT / "tools" / f"{launcher}.py"), *arguments]  # -S: without site-packages
    environment = {**os.environ, "CUDAGRAPH_SKILL_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.startswith(start)
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_the_modules_load_is_exit_130_without_a_traceback() -> None:
    code = (
        "import sys\n"
        "class Stopped:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'cudagraph_skill.cli': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stopped())\n"
        "from cudagraph_skill.__main__ import run\n"
        "sys.exit(run())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
