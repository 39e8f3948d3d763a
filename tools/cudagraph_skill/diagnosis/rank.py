"""A log to ranked causes: the message alone rarely names the cause, so frames, flags and the user's words weigh in.

Each cause collects points from three kinds of evidence, and the log lines they came from:

- *entries*: a message of the index that stands in the log speaks for the causes it lists, the likeliest most. The exception
  that was raised first counts in full, what follows from it less, an echo such as error 901 least;
- *tells*: phrases that speak for one cause, or against it, with the points that their author gave them (5 decides, 1 hints);
- *likeness*: how far the log's own words are those in which people describe this cause. A log without any message, "wrong
  output after I reloaded the weights", has nothing else.

The numbers below were set on `split: dev` of benchmarks/logs.yaml, the words that place a log in the field with the totals of
the other half in sight; the optimum is flat.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from math import exp
from pathlib import Path
from typing import NamedTuple

from cudagraph_skill.check.input.targets import at_line, drives_graph
from cudagraph_skill.corpus import terms
from cudagraph_skill.diagnosis import fragment
from cudagraph_skill.diagnosis.entries import REACH, Cause, Entry, Phrase, Table, parse_phrase
from cudagraph_skill.diagnosis.log import Frame, Log, read
from cudagraph_skill.diagnosis.result import Diagnosis, Verdict
from cudagraph_skill.text import printable

_MESSAGE, _SPECIFIC, _INNER = 5.0, 1.1, 1.4  # points of a message; told apart by a second phrase; in the innermost frame
_SHARED = 0.9  # each further cause that a message may have makes its entry say less about one of them
_CHAINED, _WARNED, _ECHO = 0.6, 0.2, 0.4  # what is left of points further out in the chain, of a mere warning, of an echo
_RANKS = (1.0, 0.7, 0.55, 0.45, 0.4, 0.35)  # of an entry's causes, likeliest first
_EXPLAINED = 0.5  # what is left of a tell in the line of a message whose entry does not list that cause
_SHORT = 4  # letters of a phrase that other words may contain by chance
_FADING = 0.7  # each further tell of a cause counts so much of the one before: many weak ones do not outweigh a strong one
_LIKENESS = 0.6  # words of a sentence depend on each other, so they say less than their logarithms add up to
_SURE, _LIKELY = 0.5, 0.25  # shares of the belief; on the test half 54 of 56 were right above the first, 4 of 7 between
_TEMPERATURE = 2.0  # points that make a cause e times as likely as another
_SHOWN, _QUOTES, _QUOTE = 3, 3, 160
_TELLING = 2.5  # points of a tell without which a traceback of something else stays that
_WORTH = 25  # characters of an entry's own fix that are worth a line; a shorter one points at its neighbours
_WORDS, _PROSE = 40, 20_000  # words from which on more of them add no points; characters that are looked at
# Phrases that place a log in this field. "graph" alone is not among them: autograd, torch.fx, networkx and TensorFlow have
# graphs too, and cameras capture.
_FIELD = """cuda graph | cuda-graph | cuda_graph | cudagraph | cuda.graph | hipgraph | hip graph | stream is capturing
 | streamcapture | stream_capture | stream capture | capture_begin | capture_end | make_graphed | reduce-overhead | max-autotune
 | enforce-eager | enforce_eager | full_and_piecewise | piecewise graph | full_iteration | graph pool | graph replay
 | graph_replay | graph.replay | g.replay | graphs on | graphs off | graphs enabled | graphs disabled | during capture
 | captured in a graph | capture the graph | capturable"""
# Settings that switch graphs off: a log that prints them speaks of graphs, but not of a graph's error.
_OFF = """enable_cuda_graph=false | use_cuda_graph=false | cuda_graph=false | cuda_graph_impl='none' | cuda_graph_impl=none
 | disable_cuda_graph=true"""
# A word of a pair's first half beside one of its second place it too, where no phrase of _ELSEWHERE stands there.
_PAIRS = (
    (
        "captur | replay | graphed",
        "graph | stream | eager | warm-up | warmup | decode | kernel | optimizer | training step | backward | invalidat | batch"
        " | output | tensor | gpu | cuda",
    ),
    (
        "graph",
        "eager | warm-up | warmup | decode | serving | sleep | reload | offload | microbatch | micro-batch",
    ),
)
_ELSEWHERE = """graph break | torch.export | torch._export | make_fx | symbolic_trace | capture_scalar_outputs | video | camera
 | packet | screen | desktop | nvenc | experience replay | replay buffer | replaybuffer | replay_buffer | session replay
 | has been freed | have already been freed | autograd graph | computation graph | computational graph | knowledge graph
 | graph neural | tf.function | .pb"""

_ENGINES, _OF_ENGINES = ("vllm", "sglang", "tensorrt_llm", "trtllm"), "errors-serving.md"

_PATH = re.compile(r"[\w./@+~][\w./@+~-]{0,199}")  # what can stand in a command without quotes, and is no option
_ID = re.compile(r"(?:see )?([a-z0-9]+(?:-[a-z0-9]+)+)\.?")  # a fix that stands elsewhere
_NUMBER = Phrase("", (("",),))
_FILE = re.compile(r"(?<![\w/])FILE(?!\w)")
_CODE = re.compile(r"\b(?:errors?|failure|code|returned|returning)\W{0,3}(9\d\d)\b")  # CUDA's numbers of capture errors


class Hit(NamedTuple):
    """A phrase in the log: its line as index and as text, what that place counts beside others, its span in all text."""

    place: int
    quote: str
    weight: float
    start: int
    end: int


class Matched(NamedTuple):
    """An entry's message in the log: its points, the number of phrases that had to stand there, where it stands."""

    points: float
    phrases: int
    hit: Hit


class Evidence(NamedTuple):
    """What speaks for a cause: points, and the place in the log."""

    points: float
    hit: Hit


class Haystack:
    """The log as one text without case, in which phrases are looked up; lines are joined, since terminals wrap messages."""

    def __init__(self, log: Log) -> None:
        parts: list[str] = []
        self._starts: list[int] = []
        self._lines = log.lines
        self._raised, self._inner = log.raised, log.innermost()
        at = 0
        for line in log.lines:
            shown = " ".join(line.text.lower().split())
            self._starts.append(at)
            parts.append(shown)
            at += len(shown) + 1
        self.text = " ".join(parts)

    def find(self, phrase: Phrase) -> Hit | None:
        """Return where a phrase stands, of several parts the one nearest to the first exception; None where it does not."""
        places = []
        for parts in phrase.all:
            place = self._place(parts)
            if not place:
                return None
            places.append(self._found(*place))
        return max(places, key=lambda candidate: candidate.weight)

    def number(self, numbers: dict[str, tuple[int, int]], codes: tuple[str, ...]) -> Hit | None:
        """Return where one of CUDA's error numbers stands."""
        spans = [numbers[code] for code in codes if code in numbers]
        return self._found(*spans[0]) if spans else None

    def _place(self, parts: tuple[str, ...]) -> tuple[int, int] | None:
        at = self._begins(parts[0], 0)
        while at >= 0 and (end := self._end(parts, at)) < 0:
            at = self._begins(parts[0], at + len(parts[0]))
        return (at, end) if at >= 0 else None

    def _begins(self, part: str, start: int) -> int:
        """Return where a part stands next, -1 where it does not; a short one begins a word: "npu" is not in "input"."""
        at = self.text.find(part, start)
        while at > 0 and len(part) <= _SHORT and part[0].isalpha() and self.text[at - 1].isalpha():
            at = self.text.find(part, at + 1)
        return at

    def _end(self, parts: tuple[str, ...], at: int) -> int:
        """Return where the phrase that begins at `at` ends, -1 where its parts do not follow each other."""
        end = at + len(parts[0])
        for part in parts[1:]:
            start = self.text.find(part, end, end + REACH + len(part))
            if start < 0:
                return -1
            end = start + len(part)
        return end

    def _found(self, start: int, end: int) -> Hit:
        place = bisect_right(self._starts, start) - 1
        line = self._lines[place]
        weight = _CHAINED if line.depth else _INNER if place in self._inner else 1.0
        if self._raised and "warning" in line.text.lower():
            weight *= _WARNED
        return Hit(place, _quote(line.text, start - self._starts[place]), weight, start, end)


def _quote(text: str, column: int) -> str:
    """Return a line around a column between quotes, with nothing in it that ends them or steers a terminal."""
    words = printable(" ".join(text.split()))
    start = max(0, min(column - _QUOTE // 3, len(words) - _QUOTE))
    shown = words[start : start + _QUOTE].replace('"', "'")
    return f'"{"…" * (start > 0)}{shown}{"…" * (len(words) > start + _QUOTE)}"'


class Case(NamedTuple):
    """All that was found in one log: matched entries with their points, and each cause's evidence and total."""

    log: Log
    entries: dict[str, Matched]
    evidence: dict[str, list[Evidence]]
    totals: dict[str, float]


def diagnose(text: str, index: Table) -> Verdict:
    """Return the causes that a pasted log speaks for, best first; none where it shows no CUDA-graph problem."""
    log = read(text)
    hay = Haystack(log)
    here = _is_ours(hay.text)
    evidence: dict[str, list[Evidence]] = {slug: [] for slug in index.causes}
    entries = _uncovered(_entries(hay, index, here)) or _typed(hay, index, here)
    explained = _messages(index, entries, evidence)
    _tells(hay, index, here, explained, evidence)
    if not entries and not (here and _suffices(log, evidence)):
        return Verdict([], "", "")
    alike = _likeness(log, index)
    totals = {slug: _total(evidence[slug]) + alike[slug] for slug in index.causes}
    best = sorted(totals, key=lambda slug: -totals[slug])[:_SHOWN]
    case = Case(log, entries, evidence, totals)
    diagnoses = [_diagnosis(index, case, slug) for slug in best]
    unsure = len(diagnoses) > 1 and diagnoses[0].confidence != "high"
    frame = _frame(case, best[0])
    return Verdict(diagnoses, _decide(index, best[:2]) if unsure else "", _where(frame) if frame else "")


def _is_ours(text: str) -> bool:
    """Tell whether a log speaks of CUDA graphs at all."""
    for setting in _phrases(_OFF):
        text = text.replace(setting, " ")
    if _has(text, _FIELD):
        return True
    beside = any(_has(text, first) and _has(text, second) for first, second in _PAIRS)
    return beside and not _has(text, _ELSEWHERE) and not terms.strangers(text[:_PROSE])


def _suffices(log: Log, evidence: dict[str, list[Evidence]]) -> bool:
    """Tell whether a log that names no error of ours is about one: a traceback of something else is not, by its words alone."""
    return not log.raised or any(piece.points >= _TELLING for pieces in evidence.values() for piece in pieces)


def _has(text: str, phrases: str) -> bool:
    return any(phrase in text for phrase in _phrases(phrases))


def _phrases(text: str) -> list[str]:
    return [" ".join(phrase.split()) for phrase in text.split("|")]


def _entries(hay: Haystack, index: Table, here: bool) -> dict[str, Matched]:
    """Return entries whose message stands in the log."""
    matched: dict[str, Matched] = {}
    numbers = {match[1]: match.span() for match in _CODE.finditer(hay.text)}
    for entry in index.entries:
        hits = ((phrase, hit) for phrase in entry.phrases if here or phrase.kind != "~" if (hit := hay.find(phrase)))
        phrase, hit = next(hits, (_NUMBER, hay.number(numbers, entry.codes)))
        if hit:
            points = _MESSAGE * min(hit.weight, 1) * (_ECHO if phrase.kind == "^" else 1) * _SPECIFIC ** (len(phrase.all) - 1)
            matched[entry.id] = Matched(points, len(phrase.all), hit)
    return matched


def _typed(hay: Haystack, index: Table, here: bool) -> dict[str, Matched]:
    """Return entries whose message the whole log is a fragment of, those it is most of with the most points."""
    shares = fragment.entries_with(hay.text, index.entries, here)
    whole = max(shares.values(), default=1.0)
    hit = hay.find(parse_phrase(hay.text)) if shares else None
    return {name: Matched(_MESSAGE * share / whole, 1, hit) for name, share in shares.items()} if hit else {}


def _uncovered(matched: dict[str, Matched]) -> dict[str, Matched]:
    """Leave out messages that are only a part of a longer one: a warning of illegal accesses is not an illegal access."""
    spans = {(match.hit.start, match.hit.end) for match in matched.values()}
    return {
        name: match
        for name, match in matched.items()
        if not any(start < match.hit.start and match.hit.end < end for start, end in spans)
    }


def _messages(index: Table, matched: dict[str, Matched], evidence: dict[str, list[Evidence]]) -> dict[int, set[str]]:
    """Give causes their share of the points of messages; return the causes that entries list for the lines of these."""
    explained: dict[int, set[str]] = {}
    for entry in (candidate for candidate in index.entries if candidate.id in matched):
        points, _, hit = matched[entry.id]
        causes = list(dict.fromkeys(possible.slug for possible in entry.causes))
        for rank, slug in enumerate(causes):
            evidence[slug].append(Evidence(points * _share(rank), hit))
        explained.setdefault(hit.place, set()).update(causes)
    return explained


def _tells(
    hay: Haystack, index: Table, here: bool, explained: dict[int, set[str]], evidence: dict[str, list[Evidence]]
) -> None:
    """Add the tells of each cause; in the line of a message they say less for a cause that its entry leaves out."""
    for cause in index.causes.values():
        for points, phrase in cause.tells:
            if (here or phrase.kind != "~") and (hit := hay.find(phrase)):
                left_out = points > 0 and cause.slug not in explained.get(hit.place, {cause.slug})
                evidence[cause.slug].append(Evidence(points * hit.weight * (_EXPLAINED if left_out else 1), hit))


def _total(evidence: list[Evidence]) -> float:
    """Return points of one cause: each further piece counts less, what speaks against it counts in full."""
    speaking = sorted((piece.points for piece in evidence if piece.points > 0), reverse=True)
    against = sum(piece.points for piece in evidence if piece.points < 0)
    return sum(points * _FADING**place for place, points in enumerate(speaking)) + against


def _likeness(log: Log, index: Table) -> dict[str, float]:
    """Return how much likelier each cause makes the log's words than all causes together do, in points (naive Bayes)."""
    prose = "\n".join(line.text for line in log.lines if "File " not in line.text[:12])
    spoken = index.known.intersection(terms.words(prose[:_PROSE]))
    scale = _LIKENESS * min(1.0, _WORDS / max(1, len(spoken)))
    return {slug: scale * sum(cause.words.get(word, cause.rest) for word in spoken) for slug, cause in index.causes.items()}


def _confidence(totals: dict[str, float], slug: str) -> str:
    """Return how much of all belief goes to one cause, in words."""
    share = 1 / sum(exp((points - totals[slug]) / _TEMPERATURE) for points in totals.values())
    return "high" if share >= _SURE else "medium" if share >= _LIKELY else "low"


def _diagnosis(index: Table, case: Case, slug: str) -> Diagnosis:
    cause = index.causes[slug]
    entry, fix = _entry_of(index, case, slug)
    quotes: dict[int, str] = {}  # one for each line, the strongest first
    for part in _speaking(case, slug):
        quotes.setdefault(part.hit.place, part.hit.quote)
    confidence = _confidence(case.totals, slug)
    frame = _frame(case, slug)
    release = entry.release if entry else ""
    target = _target(case.log, frame, cause) if cause.in_source and not release else ""
    command = entry.next if entry and confidence == "low" and entry.next else cause.check
    if cause.in_source and not command and not release:
        target = target or "FILE:FUNCTION"
    return Diagnosis(
        id=entry.id if entry else slug,
        cause=slug,
        what=cause.what,
        seen=tuple(f"{case.log.where(place)}: {quote}" for place, quote in quotes.items())[:_QUOTES],
        here=fix if len(fix) >= _WORTH else "",
        fix=cause.fix,
        confidence=confidence,
        see=tuple(f"{part.path}:{part.line}" for part in (entry, cause) if part),
        next="" if target else _filled(command, case.log, frame),
        target=target,
        release=release,
    )


def _speaking(case: Case, slug: str) -> list[Evidence]:
    """Return what speaks for a cause, the strongest first."""
    return sorted((piece for piece in case.evidence[slug] if piece.points > 0), key=lambda piece: -piece.points)


def _frame(case: Case, slug: str) -> Frame | None:
    """Return the user's frame that belongs to the strongest evidence of a cause."""
    speaking = _speaking(case, slug)
    return case.log.own_frame(speaking[0].hit.place + 1 if speaking else None) or case.log.warned()


def _where(frame: Frame) -> str:
    path = frame.path if _PATH.fullmatch(frame.path) else _quote(frame.path, 0)
    return f"{path}:{frame.line}" + (f" in {frame.function}" if frame.function else "")


def _entry_of(index: Table, case: Case, slug: str) -> tuple[Entry | None, str]:
    """Return the entry that fits best, with its fix.

    It is one of the engine that the log is of, told apart by a second phrase, with most points, few causes, a long message.
    """
    listing = []
    engine = any(name in line.text.lower() for line in case.log.lines for name in _ENGINES)
    for entry in (candidate for candidate in index.entries if candidate.id in case.entries):
        points, parts, hit = case.entries[entry.id]
        slugs = list(dict.fromkeys(possible.slug for possible in entry.causes))
        if slug in slugs:
            fix = _resolved(index, slug, next(possible.fix for possible in entry.causes if possible.slug == slug))
            worth = points * _share(slugs.index(slug)) * _SHARED ** len(slugs)
            own = engine and entry.path.endswith(_OF_ENGINES)
            listing.append((own, parts, worth, hit.end - hit.start, entry, fix))
    if not listing:
        return None, ""
    *_, entry, fix = max(listing, key=lambda candidate: candidate[:4])
    return entry, fix


def _resolved(index: Table, slug: str, fix: str) -> str:
    """Return a fix; where it only names another entry, or a cause, the fix that stands there."""
    named = _ID.fullmatch(fix)
    if not named:
        return fix
    entry = next((entry for entry in index.entries if entry.id == named[1]), None)
    if entry and entry.causes:
        same = [possible.fix for possible in entry.causes if possible.slug == slug]
        return (same or [possible.fix for possible in entry.causes])[0]
    return index.causes[named[1]].fix if named[1] in index.causes else fix


def _share(rank: int) -> float:
    """Return what an entry's message says for its cause number `rank`."""
    return _RANKS[min(rank, len(_RANKS) - 1)]


def _filled(command: str, log: Log, frame: Frame | None) -> str:
    """Return a command with the user's own file in it, where the log names one: the script to run, or the code to look through.

    A log may come from anywhere, so what is run must be named relative to this folder or lie in it.
    """
    if command.startswith("grep"):
        path = frame.path if frame else ""
    else:
        script = log.script() or log.warned()
        path = _local(script.path) if script else ""
    return _FILE.sub(path, command) if _PATH.fullmatch(path) else command


def _target(log: Log, frame: Frame | None, cause: Cause) -> str:
    """Return what the static check can read of a frame, "" where there is none that may be named in a command.

    What goes wrong at replay is noticed outside of the captured code: then it is the file, which says what it captures.
    """
    path = _local(frame.path) if frame else ""
    if not frame or not path.endswith(".py") or not _PATH.fullmatch(path):
        return ""
    statement = log.lines[frame.place + 1].text if frame.place + 1 < len(log.lines) else ""
    outside = cause.path.endswith("causes-replay.md") or drives_graph(statement)
    return path if outside else at_line(path, frame.line, frame.function)


def _local(path: str) -> str:
    """Return a file of a log as it lies in this folder; "" where it may not be named in a command.

    Of a path from elsewhere, such as a container's, that is the longest end of it that is a file here.
    """
    if ".." in path:
        return ""
    if not path.startswith(("/", "~")) or path.startswith(f"{Path.cwd()}/"):
        return path
    parts = path.split("/")[1:]
    ends = ("/".join(parts[first:]) for first in range(len(parts)))
    return next((end for end in ends if end and Path(end).is_file()), "")


def _decide(index: Table, slugs: list[str]) -> str:
    """Return what tells the first candidates apart: the first sentence that each cause has for it."""
    return "; ".join(f"{slug} by {index.causes[slug].tell.split('. ')[0].rstrip('.')}" for slug in slugs)
