"""The references keep their form: sections are short, sourced, asked for; fences parse; links lead somewhere."""

from __future__ import annotations

import ast
import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from anchors import anchors, gone
from cudagraph_skill.corpus import questions
from cudagraph_skill.corpus.load import is_entry, is_hazard, is_moved, slug
from fences import EVIDENCE, _listed, fences

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Section

ROOT = Path(__file__).resolve().parent.parent
REFERENCES = sorted((ROOT / "references").glob("*.md"))
SOURCE = re.compile(
    r"(torch|TE|MCore|Megatron-LM|Bridge|vllm|sglang|transformers|docs|pytorch|CUDA|NCCL|seen|blog|[\w.-]+/[\w.-]+)[@# ]"
    r"|advice: "  # follows from what other sections state
)
_PROGRAM = re.compile(r"\*\*Proof\*\*[^\n]*`tests/(errors|hazards)/")
MAX_CHARACTERS = 1600  # about 400 tokens: a section is one answer
MAX_ENTRY = 2000  # an error entry lists all causes of a message, each with what tells it and its fix


@pytest.fixture(scope="module")
def authored(sections: list[Section]) -> list[Section]:
    """Return the sections of the references that have text, without titles and ids that only link to another."""
    read = [section for section in sections if section.path.startswith("references/") and section.level > 1]
    return [section for section in read if section.text and not is_moved(section)]


def test_the_files_that_were_promised_are_there() -> None:
    promised = "api-pytorch api-te-megatron api-megatron-bridge patterns-compatibility patterns-dynamic troubleshooting"
    promised += " streams rng memory optimizers-amp distributed torch-compile serving profiling correctness"
    assert {f"{name}.md" for name in promised.split()} <= {path.name for path in REFERENCES}


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: path.name)
def test_a_file_opens_with_a_title_and_where_and_when_it_was_read(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ")
    opening = " ".join(lines[1:12])
    assert re.search(r"20\d\d-\d\d-\d\d", opening)
    assert re.search(r"\d+\.\d+", opening)


def test_every_section_is_found_by_questions_or_a_message_and_has_a_source_or_a_program(authored: list[Section]) -> None:
    assert [section.ref for section in authored if len(section.asks) < 3 and not _has_a_message(section)] == []
    assert [section.ref for section in authored if not section.sources and not _PROGRAM.search(section.text)] == []
    assert sum(len(section.asks) for section in authored) >= 15_000
    assert sum(len(section.sources) for section in authored) >= 3_800


def _has_a_message(section: Section) -> bool:
    """Return whether an error's message or a hazard's id leads to a section; such a section needs no questions."""
    return is_hazard(section) or (is_entry(section) and bool(section.errors))


@pytest.mark.parametrize("path", [ROOT / "SKILL.md", *REFERENCES], ids=lambda path: path.name)
def test_a_file_of_questions_is_in_step_with_its_reference(path: Path, sections: list[Section]) -> None:
    asked = ROOT / "questions" / f"{path.stem}.txt"
    anchors_asked = list(questions.parse(asked.read_text(), asked.name))
    reference = path.relative_to(ROOT).as_posix()
    anchors_written = [section.anchor for section in sections if section.path == reference]
    assert anchors_written
    assert [anchor for anchor in anchors_asked if anchor not in anchors_written] == []
    assert anchors_asked == [anchor for anchor in anchors_written if anchor in anchors_asked]


def test_every_file_of_questions_belongs_to_a_reference() -> None:
    assert {path.name for path in (ROOT / "questions").iterdir()} == {
        f"{path.stem}.txt" for path in [Path("SKILL.md"), *REFERENCES]
    }


def test_references_hide_messages_only_and_at_most_a_tenth_of_their_bytes() -> None:
    texts = [path.read_text() for path in REFERENCES]
    hidden = [comment for text in texts for comment in re.findall(r"<!--.*?-->", text, re.DOTALL)]
    assert [comment for comment in hidden if not comment.startswith(("<!-- errors: ", "<!-- library: "))] == []
    assert sum(map(len, hidden)) <= 0.1 * sum(map(len, texts))


@pytest.mark.parametrize("word", "pool stream dropout warmup optimizer allocator DDP replay capture compile".split())
def test_the_grep_that_skill_md_recommends_answers_within_4_kb(word: str) -> None:
    (command,) = re.findall(r"`(cd FOLDER/references && grep [^`]+)`", (ROOT / "SKILL.md").read_text())
    command = command.replace("FOLDER", shlex.quote(str(ROOT))).replace("WORD", word)
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert 100 < len(done.stdout.encode()) <= 4096
    assert all(re.match(r"[\w-]+\.md:\d+:#", line) for line in done.stdout.splitlines())


def test_sources_say_what_was_read(authored: list[Section]) -> None:
    assert [(section.ref, source) for section in authored for source in section.sources if not SOURCE.match(source)] == []


def test_sections_are_short_enough_to_be_an_answer(authored: list[Section]) -> None:
    lengths = [(section, len(section.text), MAX_ENTRY if is_entry(section) else MAX_CHARACTERS) for section in authored]
    assert [(section.ref, length) for section, length, most in lengths if length > most] == []


def test_headings_are_unique_in_their_file(sections: list[Section]) -> None:
    refs = [(section.path, slug(section.headings[-1])) for section in sections]
    assert sorted({ref for ref in refs if refs.count(ref) > 1}) == []


def test_every_link_leads_to_a_file_and_a_heading(sections: list[Section]) -> None:
    anchors = {section.ref for section in sections} | {section.path for section in sections}
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "benchmarks" / "README.md"]
    for path in pages:
        headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL), re.MULTILINE)
        anchors |= {f"{path.relative_to(ROOT).as_posix()}#{slug(heading)}" for heading in headings}
    broken = []
    for path in [*pages, *REFERENCES]:
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)):
            if "://" in target or target.startswith("mailto:"):
                continue
            file, _, anchor = target.partition("#")
            there = (path.parent / file).resolve() if file else path
            shown = there.relative_to(ROOT).as_posix() if there.is_relative_to(ROOT) else target
            ok = there.exists() and (not anchor or f"{shown}#{anchor}" in anchors or not shown.endswith(".md"))
            broken += [] if ok else [f"{path.name}: {target}"]
    assert broken == []


def test_files_that_skill_md_names_exist() -> None:
    text = (ROOT / "SKILL.md").read_text()
    names = set(re.findall(r"`(?:references/)?([a-z-]+\.md)`", text))
    assert {path.name for path in REFERENCES} == names


def test_every_python_fence_parses() -> None:
    wrong = []
    for fence in fences():
        if fence.info.split()[:1] == ["python"]:
            try:
                ast.parse(fence.code)
            except SyntaxError as error:
                wrong.append(f"{fence.path}:{fence.line}: {error.msg}")
    assert wrong == []


def test_fences_say_only_what_their_runner_understands() -> None:
    known = re.compile(r"(python( run)?( torch>=[\d.]+)?( gpus=\d+)?|bash|text|yaml|json|toml|ini|cpp|console|diff|)$")
    assert [f"{fence.path}:{fence.line}: {fence.info}" for fence in fences() if not known.match(fence.info)] == []


def test_every_fence_that_is_meant_to_run_has_run_on_a_gpu_as_it_stands() -> None:
    evidence = json.loads(EVIDENCE.read_text())
    seen = {row["digest"]: row["status"] for run in evidence for row in run["results"]}
    missing = [f"{job['path']}:{job['line']}" for job in _listed() if job["digest"] not in seen]
    assert missing == []
    assert [row["path"] for run in evidence for row in run["results"] if row["status"] == "failed"] == []


def test_the_card_names_files_that_stand_and_evidence_that_it_lists() -> None:
    card = yaml.safe_load((ROOT / "card.yaml").read_text())
    listed = {entry["id"] for entry in card["evidence"]}
    assert [entry["file"] for entry in card["evidence"] if not (ROOT / entry["file"]).is_file()] == []
    assert {claim["evidence"] for claim in card["claims"] if "evidence" in claim} <= listed
    assert {claim["status"] for claim in card["claims"]} <= {"run", "measured", "read", "reported"}
    assert all("evidence" in claim for claim in card["claims"] if claim["status"] in ("run", "measured"))


def test_evidence_names_its_machine_and_versions() -> None:
    for run in json.loads(EVIDENCE.read_text()):
        assert all(run[key] for key in ("date", "gpus", "torch", "cuda", "python", "command"))


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; CI has it and fails without it")
def test_phrases_that_were_read_in_torch_still_stand_there(authored: list[Section]) -> None:
    package = "torch@" + ".".join(version("torch").split(".")[:2])
    mine = [anchor for anchor in anchors(authored) if anchor.package == package]
    assert gone(mine, Path(find_spec("torch").origin or "").parent.parent) == []  # type: ignore[union-attr]
    assert len(mine) > 300 or package != "torch@2.13"


def test_skill_md_is_within_the_limits_of_the_format() -> None:
    text = (ROOT / "SKILL.md").read_text()
    assert len(text.splitlines()) < 500
    assert len(text) / 3.8 < 5000  # of this text o200k makes a token of 3.9 characters
    head = yaml.safe_load(text.split("---")[1])
    assert set(head) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert len(head["description"]) <= 1024


def test_the_official_validator_accepts_a_copy_under_the_skills_name(tmp_path: Path) -> None:
    copy = tmp_path / "cuda-graphs"  # the name in the frontmatter must be the folder's
    copy.mkdir()
    (copy / "SKILL.md").write_bytes((ROOT / "SKILL.md").read_bytes())
    command = [sys.executable, "-c", "from skills_ref.cli import main; main()", "validate", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
