"""How well search answers: this project's engine, a plain grep over sections and SQLite FTS5 on the same questions.

    python benchmarks/retrieval.py                    the table for all questions
    python benchmarks/retrieval.py --split test       only those that the ranking was not tuned on
    python benchmarks/retrieval.py --check            exit 1 if the engine falls below a floor of floors.yaml
    python benchmarks/retrieval.py --misses           what was not answered, and by which fact

A question lists facts, a fact lists patterns. A fact is found when any of its patterns occurs in the text of one of the first k
results (whitespace collapsed, backticks and asterisks dropped); Success@k needs every fact. Out-of-field questions have no
facts and should get no result. Characters are those of the three passages with their headings.

The last rows are of beginners.yaml and needs.yaml, which name the sections that answer instead of facts: Success@k needs one of
them among the first k.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import statistics
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from cudagraph_skill.corpus import load as corpus
from cudagraph_skill.corpus import terms
from cudagraph_skill.corpus.index import open_index
from cudagraph_skill.paths import skill_root

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.corpus.section import Section

    Engine = Callable[[str], list[str]]

HERE = Path(__file__).resolve().parent
OUTSIDE = "out-of-field"


def load(path: Path = HERE / "questions.yaml") -> list[dict[str, Any]]:
    """Read the questions; the head of the file describes their form."""
    questions: list[dict[str, Any]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return questions


def ours() -> Engine:
    """Search as `skill search` does, with its default limit and budget."""
    index = open_index(skill_root())
    return lambda question: [f"{hit.section.trail}\n{hit.passage}" for hit in index.search(question).hits]


_BARE = """
import json, sys
from pathlib import Path
from cudagraph_skill.corpus.index import open_index
index = open_index(Path(sys.argv[1]))
assert "whoosh" not in sys.modules
answers = {}
for question in json.load(sys.stdin):
    answers[question] = [f"{hit.section.trail}\\n{hit.passage}" for hit in index.search(question).hits]
json.dump(answers, sys.stdout)
"""


def bare(questions: list[str]) -> Engine:
    """Return the engine of a clone with nothing installed, run in a process without site-packages."""
    command = [sys.executable, "-S", "-c", _BARE, str(skill_root())]
    tools = HERE.parent / "tools"
    done = subprocess.run(command, input=json.dumps(questions), cwd=tools, capture_output=True, text=True, check=True)
    answers: dict[str, list[str]] = json.loads(done.stdout)
    return answers.__getitem__


def grep(sections: list[Section]) -> Engine:
    """Rank sections by the number of different question words in them; ties keep the order of the files."""
    texts = [section.markdown for section in sections]
    lowered = [text.lower() for text in texts]

    def answer(question: str) -> list[str]:
        words = {word for word in re.findall(r"[\w.-]{2,}", question.lower()) if word not in terms.STOP_WORDS}
        scores = [(sum(word in text for word in words), -place) for place, text in enumerate(lowered)]
        return [texts[-place] for score, place in sorted(scores, reverse=True)[:3] if score]

    return answer


def fts5(sections: list[Section]) -> Engine:
    """Search with SQLite FTS5 over heading, authored fields and text, with its stemming tokenizer and headings weighted 3."""
    base = sqlite3.connect(":memory:")
    base.execute("create virtual table docs using fts5(heading, authored, body, tokenize='porter unicode61')")
    rows = [(" ".join(section.headings), " ".join(section.asks + section.errors), section.text) for section in sections]
    base.executemany("insert into docs values (?, ?, ?)", rows)

    def answer(question: str) -> list[str]:
        words = [word for word in re.findall(r"\w+", question.lower()) if word not in terms.STOP_WORDS]
        match = " OR ".join(f'"{word}"' for word in words)
        if not match:
            return []
        rows = base.execute("select rowid from docs where docs match ? order by bm25(docs, 3, 2, 1) limit 3", (match,))
        return [sections[row - 1].markdown for (row,) in rows]

    return answer


def plain(text: str) -> str:
    """Return the text as the patterns see it."""
    return re.sub(r"\s+", " ", re.sub(r"[`*]", "", terms.plain(text))).strip()


def facts_found(texts: list[str], facts: list[list[str]]) -> list[bool]:
    """Return for each fact whether one of its patterns occurs in one of the texts."""
    cleaned = [plain(text) for text in texts]
    return [any(re.search(pattern, text, re.IGNORECASE) for pattern in fact for text in cleaned) for fact in facts]


def score(questions: list[dict[str, Any]], engine: Engine) -> dict[str, Any]:
    """Return Success@1 and @3 in per cent, characters (median and 95th percentile), refusals, and what was missed."""
    first, third, size, refused, wrongly, missed = [], [], [], [], 0, []
    for item in questions:
        results = engine(item["question"])
        if item["topic"] == OUTSIDE:
            refused.append(not results)
            if results:
                missed.append((item["id"], item["question"], ["answered: " + results[0].splitlines()[0]]))
            continue
        answered = facts_found(results[:3], item["facts"])
        first.append(all(facts_found(results[:1], item["facts"])))
        third.append(all(answered))
        size.append(sum(map(len, results[:3])))
        wrongly += not results
        if not all(answered):
            gaps = [" | ".join(fact) for fact, ok in zip(item["facts"], answered, strict=True) if not ok]
            heads = [f"    got: {text.splitlines()[0][-100:]}" for text in results[:3]]
            missed.append((item["id"], item["question"], gaps + heads))
    return {
        "Success@1": _percent(first),
        "Success@3": _percent(third),
        "characters": int(statistics.median(size)) if size else 0,
        "p95 characters": sorted(size)[int(len(size) * 0.95)] if size else 0,
        "refused outside": _percent(refused),
        "refused inside": round(100 * wrongly / max(1, len(first)), 1),
        "missed": missed,
    }


def beginners(search: Callable[[str], list[Section]]) -> dict[str, Any]:
    """Return Success@1 and refusals in per cent on beginners.yaml, and what was missed with what came first."""
    first, outside, wrongly, missed = [], [], 0, []
    for item in load(HERE / "beginners.yaml"):
        found = [section.ref.removeprefix("references/") for section in search(item["question"])]
        if item.get("outside"):
            right = not found
            outside.append(right)
        else:
            right = bool(found) and found[0] in item["right"]
            first.append(right)
            wrongly += not found
        if not right:
            missed.append(("beginner", item["question"], [f"    got: {ref}" for ref in found[:1]]))
    return {
        "Success@1": _percent(first),
        "refused outside": _percent(outside),
        "refused inside": round(100 * wrongly / max(1, len(first)), 1),
        "missed": missed,
    }


def needs(search: Callable[[str], list[Section]], split: str) -> dict[str, Any]:
    """Return Success@1 and @3 and refusals in per cent on a split of needs.yaml, and what was missed with what came first."""
    first, third, wrongly, missed = [], [], 0, []
    for item in (each for each in load(HERE / "needs.yaml") if each["split"] == split):
        found = [section.ref.removeprefix("references/") for section in search(item["question"])][:3]
        places = [ref in item["right"] for ref in found]
        first.append(places[:1] == [True])
        third.append(any(places))
        wrongly += not found
        if not any(places):
            missed.append((item["id"], item["question"], [f"    got: {ref}" for ref in found]))
    return {
        "Success@1": _percent(first),
        "Success@3": _percent(third),
        "refused inside": round(100 * wrongly / max(1, len(first)), 1),
        "missed": missed,
    }


def _percent(hits: list[bool]) -> float:
    return round(100 * sum(hits) / max(1, len(hits)), 1)


def main() -> int:
    """Print the table; with --check compare with the floors."""
    options = argparse.ArgumentParser(description="Success of search on benchmarks/questions.yaml")
    options.add_argument("--split", choices=("dev", "test"))
    options.add_argument("--check", action="store_true", help="exit 1 when below benchmarks/floors.yaml")
    options.add_argument("--misses", action="store_true")
    options.add_argument("--by", choices=("topic", "difficulty"), help="one row for each, ours only")
    args = options.parse_args()
    questions = [item for item in load() if args.split in (None, item["split"])]
    sections = corpus.sections(corpus.documents(skill_root()))
    unaided = bare([item["question"] for item in questions])
    engines = {
        "skill search": ours(),
        "from a bare clone": unaided,
        "grep over sections": grep(sections),
        "SQLite FTS5": fts5(sections),
    }
    inside = sum(item["topic"] != OUTSIDE for item in questions)
    print(f"{inside} questions in the field, {len(questions) - inside} outside, {len(sections)} sections")
    columns = ("Success@1", "Success@3", "characters", "p95 characters", "refused outside", "refused inside")
    print(f"{'':<22}" + "".join(f"{name:>17}" for name in columns))
    scores = {name: score(questions, engine) for name, engine in engines.items()}
    for name, row in scores.items():
        print(f"{name:<22}" + "".join(f"{row[column]:>17}" for column in columns))
    if args.by:
        _groups(questions, engines["skill search"], args.by)
    index = open_index(skill_root())

    def search(question: str) -> list[Section]:
        return [hit.section for hit in index.search(question).hits]

    labelled = {
        "beginners": beginners(search),
        "needs, dev": needs(search, "dev"),
        "needs, test": needs(search, "test"),
    }
    for name, row in labelled.items():
        print(f"{name:<22}" + "".join(f"{row.get(column, '-'):>17}" for column in columns))
    if args.misses:
        for name, question, gaps in chain(scores["skill search"]["missed"], *(row["missed"] for row in labelled.values())):
            print(f"{name}: {question}", *(f"  {gap}" for gap in gaps), sep="\n")
    return _below_floor(scores["skill search"], scores["from a bare clone"], labelled) if args.check else 0


def _groups(questions: list[dict[str, Any]], engine: Engine, key: str) -> None:
    for name in sorted({item.get(key, "-") for item in questions}):
        row = score([item for item in questions if item.get(key, "-") == name], engine)
        print(f"  {name:<24}{row['Success@1']:>8}{row['Success@3']:>8}")


def below(row: dict[str, Any], floors: dict[str, Any]) -> list[str]:
    """Return a sentence for each number that is below its floor or above its ceiling."""
    low = [f"{name} is {row[name]}, the floor is {least}" for name, least in floors["at_least"].items() if row[name] < least]
    return low + [
        f"{name} is {row[name]}, the ceiling is {most}" for name, most in floors["at_most"].items() if row[name] > most
    ]


def _below_floor(row: dict[str, Any], unaided: dict[str, Any], labelled: dict[str, dict[str, Any]]) -> int:
    every = yaml.safe_load((HERE / "floors.yaml").read_text(encoding="utf-8"))
    floors = every["retrieval"]
    low = below(row, floors)
    for name, scored in labelled.items():
        low += [f"{name}: {sentence}" for sentence in below(scored, every[name])]
    behind = row["Success@3"] - unaided["Success@3"]
    if behind > floors["bare clone behind"]:
        low.append(
            f"Success@3 from a bare clone is {behind:.1f} points behind, at most {floors['bare clone behind']} are allowed"
        )
    for sentence in low:
        print(sentence, file=sys.stderr)
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
