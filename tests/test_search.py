"""Questions to sections, and the index that is kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import retrieval
import yaml
from cudagraph_skill.corpus import language, output, terms
from cudagraph_skill.corpus.index import Index, open_index
from cudagraph_skill.corpus.rank import MAX_CHARACTERS, key
from cudagraph_skill.errors import SkillError
from cudagraph_skill.paths import skill_root
from cudagraph_skill.text import Steps

if TYPE_CHECKING:
    from cudagraph_skill.corpus.section import Section

STEPS = Steps(*[lambda _: "next"] * 4)
COPIED = {"what is a cuda graph"}  # a form of a section before the set was written


@pytest.mark.slow
def test_every_identifier_in_a_heading_finds_a_section_that_has_it(index: Index, sections: list[Section]) -> None:
    missed = []
    for section in sections:
        for name in {part for part in section.headings[-1].split("`")[1::2] if len(part) > 3}:
            hits = index.search(name, limit=3).hits
            if not any(name in hit.section.headings[-1] for hit in hits):
                missed.append(name)
    assert missed == []


@pytest.mark.slow
def test_every_error_text_finds_a_section_that_has_it_first(index: Index, sections: list[Section]) -> None:
    texts = {text.lstrip("~^") for section in sections for text in section.errors if len(text) > 5}
    wrong = []
    for text in (text for text in texts if " & " not in text and "…" not in text):
        hits = index.search(text, limit=1).hits
        if not hits or not _says(hits[0].section, key(text)):
            wrong.append(text)
    assert wrong == []


def _says(section: Section, text: str) -> bool:
    """Return whether a section has an error text, or the part of it that is the same in every release."""
    written = key(" ".join((section.markdown, *section.errors, *section.asks)))
    stable = [key(error.lstrip("~^").partition(" & ")[0].partition("…")[0]) for error in section.errors]
    return text in written or any(part in text for part in stable if len(part) > 11)


@pytest.mark.slow
def test_an_authored_question_finds_its_section(index: Index) -> None:
    asked = [(form, section) for section in index.sections() for form in section.asks][::7]
    shown = [section.ref in {hit.section.ref for hit in index.search(form, limit=3).hits} for form, section in asked]
    assert sum(shown) >= 0.95 * len(shown)


def test_a_typo_is_corrected_and_said(index: Index) -> None:
    answer = index.search("why does capturing fail in the backwrd pass")
    assert answer.hits
    assert answer.corrected == {"backwrd": "backward"}
    assert output.answer(answer, 1, STEPS).startswith('searched for "backward" instead of "backwrd"\n')


@pytest.mark.parametrize(
    ("typed", "used"),
    [
        ("momntum", "momentum"),  # a letter left out
        ("megatorn", "megatron"),  # two swapped
        ("enforce_eager or eagr", "eager"),  # a short word
        ("sinchronisation", "synchronisation"),  # another letter
        ("acumulatn of gradients", "accumulation"),  # two slips in a long word
        ("permited", "permitted"),  # known by its stem: only the doubled letter is added
        ("graf", "graph"),  # as it is spoken
    ],
)
def test_slips_of_several_kinds_are_repaired(index: Index, typed: str, used: str) -> None:
    assert used in index.search(f"cuda graph {typed}").corrected.values()


@pytest.mark.parametrize("word", ["replays", "tensors", "yolo", "bake", "rust", "CUDA"])
def test_words_that_are_no_slips_stay(index: Index, word: str) -> None:
    assert index.search(f"{word} in a cuda graph").corrected == {}


@pytest.mark.parametrize("question", ["momntum stays the same after captre", "gradscalar with cuda grpahs"])
def test_a_repaired_question_of_the_field_is_answered(index: Index, question: str) -> None:
    assert index.search(question).hits


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("make_graphed_calables", "make_graphed_callables"),
        ("torch.cuda.grph", "torch.cuda.graph"),
        ("what does expandable_segmnts do", "expandable_segments"),
        ("graph_pool_handel", "graph_pool_handle"),
    ],
)
def test_a_slip_in_the_name_of_an_api_is_repaired(index: Index, typed: str, name: str) -> None:
    answer = index.search(typed)
    assert name in answer.corrected.values()
    assert name.rpartition(".")[2] in answer.hits[0].section.headings[-1]


@pytest.mark.parametrize("name", ["my_model.foward", "src/model_train.py", "torch.cuda.get_device_name", "loss_fm"])
def test_names_of_others_stay(index: Index, name: str) -> None:
    assert name not in index.search(f"{name} in a cuda graph").corrected


def test_the_other_word_of_a_fragment_confirms_a_guess(index: Index) -> None:
    assert index.search("capture grapf").hits


@pytest.mark.parametrize(
    "question",
    [
        "cuda graph decoder: not enough values to unpack (expected 6, got 5)",
        "frobnicate blorp quux with cudagraphs",
        "onnx runtime enable_cuda_graph wrong results after second run",
    ],
)
def test_a_question_about_cuda_graphs_is_answered_whatever_its_other_words(index: Index, question: str) -> None:
    assert index.search(question).hits


def test_a_refusal_says_what_was_searched_for(index: Index) -> None:
    answer = index.search("how to bake bread")
    assert not answer.hits
    assert f'searched for "{answer.corrected["bread"]}" instead of "bread"' in output.nothing_found(answer, "", STEPS)


@pytest.mark.parametrize(
    ("question", "searched"),
    [
        ("Warum gibt Dropout bei jedem Replay dieselbe Maske?", "Dropout Replay"),
        ("Was ist CUDA graph", "CUDA graph"),
        ("如何在 PyTorch 中使用 torch.cuda.graph 捕获训练循环?", "PyTorch torch.cuda.graph"),
        ("torch.compile(mode='reduce-overhead') で出力が上書きされる", "torch.compile mode reduce overhead"),
        ("make_graphed_callables 사용법", "make_graphed_callables"),
        ("¿Por qué falla la captura con cudaErrorStreamCaptureUnjoined?", "cudaErrorStreamCaptureUnjoined"),
        ("Comment capturer une étape d'entraînement avec DDP ?", "DDP"),
        ("почему replay не обновляет learning rate", "replay learning rate"),
        ("por que o dropout fica igual em cada replay", "dropout replay"),
        ("tại sao CUDA graph chậm hơn", "CUDA graph"),
        ("--cuda-graph-impl für Megatron: was ist das?", "--cuda-graph-impl Megatron"),
    ],
)
def test_of_a_question_in_another_language_the_english_words_are_answered(index: Index, question: str, searched: str) -> None:
    answer = index.search(question)
    assert answer.english == searched
    assert answer.hits
    said = f'the references are in English: searched for "{searched}"'
    assert output.answer(answer, 1, STEPS).startswith(said)
    assert json.loads(output.answer_json(answer, 1, STEPS))["note"] == said


@pytest.mark.parametrize(
    "question", ["wie koche ich Eier", "如何煮鸡蛋", "CUDA 그래프 캡처 중 오류", "¿cómo capturo un bucle de entrenamiento?"]
)
def test_a_question_without_english_words_is_told_to_ask_in_english(index: Index, question: str) -> None:
    answer = index.search(question)
    assert (answer.hits, answer.english) == ([], "")
    said = output.nothing_found(answer, question, STEPS)
    assert said.startswith(f'nothing found for "{question}": the references are in English: ')
    assert "ask again in English, or with the API name" in said


def test_no_english_question_is_taken_for_another_language(index: Index, sections: list[Section]) -> None:
    asked = [*(form for section in sections for form in section.asks), *(case["question"] for case in retrieval.load())]
    asked += ["Réponses: what does the naïve capture of a café model cost", "sin and cos of a tensor", "the μs per kernel"]
    assert [question for question in asked if language.english(question, index._is_known) is not None] == []


def test_words_of_a_users_own_markdown_are_no_other_language(tmp_path: Path) -> None:
    (tmp_path / "notizen.md").write_text("# Notizen\n\n## Warum der Graph hängt\n\nDas ist die Antwort.\n", encoding="utf-8")
    answer = open_index(skill_root(), tmp_path).search("warum ist der graph langsam")
    assert answer.english is None
    assert answer.hits[0].section.headings[-1] == "Warum der Graph hängt"


@pytest.mark.parametrize(
    ("name", "heading"),
    [
        ("make_graphed_callables", "signature and what it does"),
        ("CUDAGraph", "members"),
        ("torch.cuda.graph", "signature"),
        ("capture_begin", "`CUDAGraph.capture_begin("),
        ("warm-up", "Warm-up before capture"),
        ("warmup", "Warm-up before capture"),
    ],
)
def test_a_name_alone_finds_the_overview_of_it(index: Index, name: str, heading: str) -> None:
    assert heading in index.search(name).hits[0].section.headings[-1]


@pytest.mark.parametrize("question", ["when should one use a cuda graph", "when are cuda graphs good"])
def test_stop_words_count_where_nothing_else_is_asked(index: Index, question: str) -> None:
    assert "Should I use" in index.search(question).hits[0].section.headings[-1]


def test_beginners_are_answered_and_their_neighbours_refused(index: Index, sections: list[Section]) -> None:
    row = retrieval.beginners(lambda question: [hit.section for hit in index.search(question).hits])
    floors = yaml.safe_load((retrieval.HERE / "floors.yaml").read_text(encoding="utf-8"))["beginners"]
    assert retrieval.below(row, floors) == []
    questions = retrieval.load(retrieval.HERE / "beginners.yaml")
    named = {f"references/{ref}" for item in questions for ref in item.get("right", ()) if not ref.startswith("SKILL.md")}
    assert named - {section.ref for section in sections} == set()
    forms = {key(form) for section in sections for form in section.asks}
    copied = {item["question"] for item in questions if key(item["question"]) in forms}
    assert copied <= COPIED


def test_needs_of_recent_threads_are_answered_by_sections_that_exist(index: Index, sections: list[Section]) -> None:
    floors = yaml.safe_load((retrieval.HERE / "floors.yaml").read_text(encoding="utf-8"))
    for split in ("dev", "test"):
        row = retrieval.needs(lambda question: [hit.section for hit in index.search(question).hits], split)
        assert retrieval.below(row, floors[f"needs, {split}"]) == []
    needs = retrieval.load(retrieval.HERE / "needs.yaml")
    assert len({item["source"] for item in needs}) == len(needs) >= 86
    assert {f"references/{ref}" for item in needs for ref in item["right"]} - {section.ref for section in sections} == set()
    forms = {key(form) for section in sections for form in section.asks}
    assert [item["question"] for item in needs if key(item["question"]) in forms] == []


@pytest.mark.parametrize(
    "question",
    [
        "how long do I boil an egg",
        "matplotlib bar chart colours",
        "neo4j cypher shortest path",
        "capture stdout of a subprocess",
        "experience replay for dqn",
        "kubernetes ingress tls secret",
        "install the nvidia driver",
        "knowledge graph embeddings",
        "shortest path between two nodes",
        "record my screen in windows",
        "compare adam with rmsprop",
    ],
)
def test_another_field_is_refused_with_the_nearest_headings(index: Index, question: str) -> None:
    answer = index.search(question)
    assert answer.hits == []


def test_every_ring_of_synonyms_reaches_a_word_of_the_corpus(index: Index) -> None:
    rings = [line.split("|") for line in terms.SYNONYMS.strip().splitlines()]
    assert all(len(ring) > 1 for ring in rings)
    reached = [any(all(map(index._sections_with, terms.words(member))) for member in ring) for ring in rings]
    assert [ring for ring, ok in zip(rings, reached, strict=True) if not ok] == []


@pytest.mark.parametrize("question", ["how to bake bread", "bread recipe with nuts"])
def test_a_repaired_word_alone_is_no_answer(index: Index, question: str) -> None:
    assert index.search(question).hits == []


def test_a_heading_without_text_is_no_answer(index: Index, sections: list[Section]) -> None:
    bare = [section for section in sections if not section.text]
    assert bare
    answers = [hit.section for section in bare for hit in index.search(section.headings[-1]).hits]
    assert all(section.text for section in answers)


def test_an_old_id_is_found_by_itself_and_not_by_its_words(index: Index) -> None:
    assert "Moved to" in index.search("learning-rate-change-ignored").hits[0].passage
    assert not any("Moved to" in hit.passage for hit in index.search("my learning rate change is ignored").hits)


def test_pages_continue_and_do_not_overlap(index: Index) -> None:
    pages = [index.search("capture fails", limit=2, page=page).hits for page in (1, 2, 3)]
    refs = [hit.section.ref for hits in pages for hit in hits]
    assert len(refs) == len(set(refs)) == 6


def test_passages_keep_to_the_budget(index: Index) -> None:
    for tokens in (100, 400, 800):
        hits = index.search("how do I warm up before capture", limit=3, max_tokens=tokens).hits
        openings = sum(len(hit.passage.split("\n\n")[0]) for hit in hits)  # an opening is never cut
        assert sum(len(hit.passage) for hit in hits) <= max(tokens * 4, openings) + 40


@pytest.mark.parametrize("question", ["", "   \n", "\x00\x01\x02\x03", "x" * (MAX_CHARACTERS + 1), "\x1b\x07\x07"])
def test_questions_that_are_none_are_one_sentence(index: Index, question: str) -> None:
    with pytest.raises(SkillError):
        index.search(question)


def test_a_pasted_traceback_is_a_question(index: Index) -> None:
    frames = "\n".join(f'  File "/home/me/project/module_{n}.py", line {n}, in forward' for n in range(150))
    log = f"Traceback (most recent call last):\n{frames}\nCUDA error: operation not permitted when stream is capturing"
    assert "operation not permitted" in " ".join(
        hit.section.markdown + str(hit.section.errors) for hit in index.search(log).hits
    )


def test_threads_may_share_an_index(sections: list[Section]) -> None:
    questions = [section.asks[0] for section in sections if section.asks][:120]
    fresh = open_index(skill_root())  # nothing of it is in memory yet
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(fresh.search, questions))
    assert answers == [fresh.search(question) for question in questions]


def test_a_page_past_the_end_is_one_sentence(index: Index) -> None:
    with pytest.raises(SkillError, match="past the end"):
        index.search("capture", page=10_000)


def test_the_index_is_built_once_and_then_opened(cache: Path, small: Path) -> None:
    notes: list[str] = []
    open_index(small, say=notes.append)
    assert len(notes) == 1  # it takes seconds, so it is said
    (folder,) = cache.iterdir()
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    open_index(small, say=notes.append)
    assert len(notes) == 1
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_changed_content_gets_an_index_of_its_own(cache: Path, small: Path, tmp_path: Path) -> None:
    own = tmp_path / "docs"
    own.mkdir()
    (own / "a.md").write_text("# Flux capacitor\nNeeds 1.21 gigawatts.\n")
    index = open_index(small, own)
    assert "gigawatts" in index.search("flux capacitor").hits[0].passage
    (own / "a.md").write_text("# Flux capacitor\nNeeds a bolt of lightning.\n")
    index = open_index(small, own)
    assert "lightning" in index.search("flux capacitor").hits[0].passage
    assert len(list(cache.iterdir())) == 2


def test_text_of_a_users_corpus_cannot_steer_the_terminal(cache: Path, small: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.md").write_text("# Flux \x1b[2J capacitor\n\x1b]0;owned\x07Needs\t1.21\xa0gigawatts \x9b31m \u202e.\n\n## B\nc\n")
    index = open_index(small, own)
    result = index.search("flux capacitor gigawatts")
    steps = STEPS
    shown = [section for section in index.sections() if section.path.endswith("a.md")]
    for text in (output.answer(result, 1, steps), output.section(shown[0]), output.contents(shown, steps)):
        assert not set(text) & {"\x1b", "\x07", "\x9b", "\u202e"}
    assert "Needs\t1.21\xa0gigawatts" in output.section(shown[0])
    assert cache.is_dir()


@pytest.mark.parametrize("damage", ["truncate", "remove", "garbage", "empty"])
def test_a_damaged_index_is_built_again(cache: Path, small: Path, damage: str) -> None:
    open_index(small)
    (folder,) = cache.iterdir()
    for path in folder.iterdir():
        if damage == "empty":
            path.write_bytes(b"")
        elif damage == "truncate":
            path.write_bytes(path.read_bytes()[:10])
        elif damage == "garbage":
            path.write_bytes(b"garbage" * 100)
        elif path.name == "vocabulary":
            path.unlink()
    index = open_index(small)
    assert index.search("capture").hits


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # Whoosh leaves the file open that it cannot read
def test_damage_that_keeps_the_size_is_found_at_opening(cache: Path, small: Path) -> None:
    open_index(small)
    (folder,) = cache.iterdir()
    for path in (*folder.glob("*.toc"), *folder.glob("*.seg")):
        path.write_bytes(b"\xff" * path.stat().st_size)
    assert open_index(small).search("capture").hits


def test_what_a_killed_process_left_is_never_opened_and_swept_later(cache: Path, small: Path) -> None:
    half = cache / ".building-dead"
    half.mkdir(parents=True)
    (half / "_MAIN_1.toc").write_bytes(b"half")
    os.utime(half, (time.time() - 7200,) * 2)
    index = open_index(small)
    assert index.search("capture").hits
    assert not half.exists()


def test_a_cache_that_cannot_be_written_costs_a_note_and_no_answer(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("CUDAGRAPH_SKILL_CACHE", str(blocked / "cache"))
    notes: list[str] = []
    index = open_index(small, say=notes.append)
    assert index.search("capture").hits
    assert "CUDAGRAPH_SKILL_CACHE" in notes[-1]


def test_processes_that_build_at_the_same_time_agree(cache: Path, small: Path) -> None:
    code = "from cudagraph_skill.corpus.index import open_index; from pathlib import Path; import sys; "
    code += "print(open_index(Path(sys.argv[1])).search('pool').hits[0])"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "tools")}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(small)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )
        for _ in range(4)
    ]
    ended = [process.communicate() for process in started]
    assert {err for _, err in ended} == {b""}
    assert len({out for out, _ in ended}) == 1
    (folder,) = cache.iterdir()  # one index, and nothing half-built
    assert not folder.name.startswith(".")


def test_old_indexes_are_swept(cache: Path, small: Path) -> None:
    cache.mkdir()
    for number in range(20):
        folder = cache / f"1-{number:020x}"
        folder.mkdir()
        os.utime(folder, (number + 1,) * 2)
    (cache / "not-ours").mkdir()
    open_index(small)
    assert len(list(cache.iterdir())) <= 9
    assert (cache / "not-ours").is_dir()
