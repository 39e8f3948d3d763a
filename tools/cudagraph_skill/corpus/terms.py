"""Turn text into index terms: identifiers kept whole and in parts, words stemmed, the field's synonyms, spelling.

One function serves the index and the query, so that both see the same terms.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from cudagraph_skill.corpus import porter

if TYPE_CHECKING:
    from collections.abc import Callable

# A word, a dotted name, a flag (--cuda-graph-impl), a C++ name (CUDAGraph::replay), a number, a call without its brackets.
_TOKEN = re.compile(r"--?[a-z0-9][\w-]*|[^\W_][\w]*(?:(?:\.|::|-)\w+)*|_++[^\W_]\w*", re.IGNORECASE)
_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_MAX_TOKEN = 160
# Letters from which on several slips are looked for, how many may be missing, and how much must be right (difflib's ratio).
_LONG, _SHORTER, _CLOSE = 8, 3, 0.84
_PARTS = re.compile(r"[._:-]+")
_PLAIN = str.maketrans({"\u2010": "-", "\u2011": "-", "\u2012": "-", "\u2013": "-", "\u2014": " ", "\u2018": "'",
                        "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00a0": " "})  # fmt: skip
# What changes from run to run in an error text carries no meaning for a look-up.
_NOISE = re.compile(r"0x[0-9a-f]+|(?:/[\w.@+-]+){2,}/?|\bline \d+|\x1b\[[0-9;]*m", re.IGNORECASE)
_NOISE_HAS = "/", "0x", "0X", "ine ", "INE ", "\x1b"  # what all noise has of it, and most texts have none of

STOP_WORDS = frozenset(
    """
    a about after again all also am an and any anyone are as at be because been being but by can cannot could did
    do does doesn doing don each either else etc ever every for from further get gets getting give go goes going
    got had has have having he help her here him his how i if im in instead into is isn it its itself ive just
    know let like ll look looks make makes many may maybe me might more most much must my need needed needs no now
    of off ok okay on once one only or other our out over own people please possible put re really right s same
    say says see seem seems set shall she should shouldn so some something still such sure t take tell than thanks
    that the their them then there these they thing things think this those though through to together too try
    trying two under up us use used uses using ve very via want wants was wasn way we well were what when where
    whether which while who whose why will with within won would wouldn yes yet you your
    arent cant couldnt didnt doesnt dont hasnt havent isnt shouldnt wasnt wont wouldnt
    """.split()
)
KEPT = frozenset("not without never before after same no once again over out off".split())  # they change what is asked

# Each line is a ring: a query that has one also asks, with less weight, for the others. Multi-word members are matched as
# adjacent words. Data, not code; a test holds that each ring reaches a word of the corpus.
SYNONYMS = """
amp | autocast | mixed precision | half precision
frozen | baked | stale | constant | stuck | same result | never changes | hardcoded
reduce-overhead | cudagraph trees | compile cudagraphs
launch-bound | cpu-bound | launch overhead | kernel launch | cpu overhead | dispatch overhead
pool | mempool | memory pool | private pool
oom | out of memory | outofmemory
capture | record | recording | stream capture
replay | relaunch | rerun | launch
warm-up | warmup | warm up | dry run
side stream | another stream | non-default stream | second stream
default stream | legacy stream | stream 0 | null stream
dropout | random mask | rng | random | seed
kv cache | static cache | past key values
bucket | bucketing | padding | pad
dynamic shape | variable length | varying size | different shapes | ragged
learning rate | lr | scheduler
grad | gradient | backward
skip | skipping | fall back | fallback
re-record | recapture | re-capture | rerecord
sync | synchronize | synchronise | synchronization | synchronisation | block | wait | stall
host | cpu
device | gpu
wrong | incorrect | garbage | mismatch | differ | diverge
nan | inf | non-finite
crash | die | abort | segfault
hang | deadlock | freeze | stuck
slow | slower | no speedup | not faster | regression
fp8 | transformer engine | te
megatron-core | mcore | megatron
megatron-bridge | bridge | nemo
pp | pipeline parallel | pipeline
tp | tensor parallel
ep | expert parallel | moe
ddp | distributeddataparallel | data parallel | data-parallel
fsdp | fsdp2 | fully_shard | sharded
nccl | collective | all-reduce | allreduce
optimizer | optim | adam
clip | clipping | clip_grad_norm_
checkpoint | checkpointing | recompute | activation checkpointing
scaler | gradscaler | loss scale | loss scaling
nsys | nsight | nsight systems
profile | profiler | trace | timeline
utilization | utilisation | busy | idle
vllm | sglang | serving | inference server
generator | rng state
pinned | pin_memory | page-locked | pageable
node | nodes | kernel
dataloader | data loader | loader
hook | hooks | callback
buffer | buffers | batchnorm
shape | size
address | pointer | data_ptr
verify | validate | check | compare
tolerance | allclose | assert_close | rtol
output | result
overwritten | overwrites | clobbered | changes under
version | release | since
deprecated | renamed | removed | old name
flag | option | argument | setting | config
item | scalar | .item
branch | if | condition | control flow
lora | adapter
prefill | prompt
decode | generate | token
worker | thread | background thread
free | release | reclaim | leak
custom op | extension | custom kernel
triton | custom kernel
minimum | oldest | earliest
maximum | biggest | largest
benefit | gain | speedup | payoff | worth | faster
simple | basic | minimal | smallest
example | recipe | code
file | disk
eager | normal | plain | ungraphed
weight | parameter | param
unused | untouched | not used
iteration | step | pass
vram | gpu memory | gpu ram
reseed | manual_seed | seed
rank | replica
playback | play back | replay
snapshot | capture
tensor | buffer
tell | know | detect
forever | never
junk | garbage
"""


_ANCHORS = """
graph cudagraph capture recapture replay record recording megatron mcore bridge transformer_engine te fp8 vllm sglang tensorrt
warm-up warmup capturable pool stream compile inductor launch relaunch nccl allreduce rng generator dropout autocast gradscaler
make_graphed_callables fsdp ddp kernel static reduce overhead trees cudnn cublas eager moe optimizer lr checkpoint allocator
kv cache decode batch graphable autograd accumulategrad pinned synchronize sync profiler nsys
"""
_STRANGERS = frozenset(
    """
    jax xla tpu hlo tensorflow keras mxnet torch.fx fx symbolic_trace networkx neo4j cypher gnn geometric dgl
    torchviz matplotlib wireshark tcpdump vulkan renderdoc directx opengl opencv webcam kubernetes docker
    terraform langgraph langchain graphql onnx onnxruntime onnxsim sql postgres mysql java javascript react rust
    golang webgpu metal opencl sycl num_workers persistent_workers webdataset wandb tensorboard nvcc cmake slurm
    plotly seaborn ffmpeg gstreamer unity unreal kafka redux jmeter pcap selenium playwright mlir tvm tflite
    coreml navmesh grappler dagster airflow spark
    """.split()
)
# The same as phrases: each has a word of the field in another sense, or only its neighbours.
_STRANGE = re.compile(
    r"\b(?:(?:knowledge|social|scene|call|dependency|flow|bar|line|pie) graphs?"
    r"|graph (?:neural|api|databases?|theory|travers\w+)|shortest paths?"
    r"|(?:network|tcp|udp|ip) packets?|packet captur\w+|screen (?:record|captur)\w+|motion captur\w+|captur\w+ the flag"
    r"|(?:instant|experience) replay|replay attacks?|captur\w+ std(?:out|err)|bank conflicts?"
    r"|(?:live|video) stream\w*|gaming|bitcoin|mining|twitch|youtube"
    r"|(?:install|download|update|uninstall)\w* (?:the )?(?:nvidia )?(?:cuda|cudnn|drivers?|pytorch|toolkit))\b"
)
_OURS = re.compile(r"cuda[ _-]?graph", re.IGNORECASE)


def plain(text: str) -> str:
    """Return `text` with typographic dashes and quotes made plain."""
    return text if text.isascii() else text.translate(_PLAIN)


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """Return a word's stem; identifiers, numbers and short words stay as they are."""
    if len(word) < 4 or not word.isalpha():
        return word
    return porter.stem(word)


def _tokens(text: str) -> list[str]:
    """Return words and identifiers as they are typed; what is longer than any name is data."""
    quiet = _NOISE.sub(" ", plain(text)) if any(part in text for part in _NOISE_HAS) else plain(text)
    return [token for token in _TOKEN.findall(quiet) if len(token) <= _MAX_TOKEN]


def words(text: str) -> list[str]:
    """Return the stemmed words of `text` in order, identifiers in their parts, stop words left out."""
    return [term for token in _tokens(text) for term in _parts(token)]


def terms(text: str) -> list[str]:
    """Return all index terms of `text`: its words, and whole identifiers with their dotted tails."""
    in_order, names = analysed(text)
    return in_order + names


def analysed(text: str) -> tuple[list[str], list[str]]:
    """Return the words of `text` in order, and its whole identifiers with their dotted tails."""
    both = [_terms_of(token) for token in _tokens(text)]
    return [stem for stems, _ in both for stem in stems], [name for _, names in both for name in names]


@lru_cache(maxsize=65536)
def _terms_of(token: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    parts = _parts(token)
    return parts, _wholes(token, parts)


@lru_cache(maxsize=65536)
def _parts(token: str) -> tuple[str, ...]:
    parts = []
    for piece in _PARTS.split(token):
        for part in _CAMEL.findall(piece) or [piece]:
            low = part.lower()
            if low in ("cudagraph", "cudagraphs"):
                parts += ["cuda", "graph"]
            elif low == "warmup" == token.lower():  # as "warm-up" and "warm up" are read
                parts.append("warm")
            elif low and (low not in STOP_WORDS or low in KEPT):
                parts.append(stem(low))
    return tuple(parts)


def _wholes(token: str, parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return an identifier of several parts and its dotted tails; StaticCache also as the word staticcache."""
    whole = token.lower().strip("-")
    if len(parts) < 2 and "_" not in whole.strip("_"):
        return ()
    names = re.split(r"\.|::", whole)
    tails = [".".join(names[start:]) for start in range(len(names))]
    glued = (stem(whole),) if whole.isalpha() else ()
    return tuple(f"={tail}" for tail in tails if len(tail) > 2) + glued


@lru_cache(maxsize=1)
def _rings() -> dict[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    rings: dict[tuple[str, ...], tuple[tuple[str, ...], ...]] = {}
    for line in SYNONYMS.strip().splitlines():
        members = tuple(dict.fromkeys(tuple(words(member)) for member in line.split("|")))
        for member in members:
            if member:
                rings[member] = rings.get(member, ()) + tuple(other for other in members if other and other != member)
    return rings


@lru_cache(maxsize=1)
def anchors() -> frozenset[str]:
    """Return words that place a question in this field."""
    return frozenset(words(_ANCHORS))


def strangers(question: str) -> frozenset[str]:
    """Return names in a question of subjects that share this field's words: graphs, captures and replays of other kinds."""
    names = re.findall(r"[a-z][\w.]*\w", plain(question).lower())
    return _STRANGERS & {*names, *(name.partition(".")[0] for name in names)}


def elsewhere(question: str) -> frozenset[str]:
    """Return `strangers` and phrases of other subjects, these where the question does not say that it is about CUDA graphs.

    A log may have any of these phrases, so only a question is searched for them.
    """
    phrases = () if is_ours(question) else _STRANGE.findall(plain(question).lower())
    return strangers(question).union(phrases)


def is_ours(question: str) -> bool:
    """Return whether a question says that it is about CUDA graphs."""
    return _OURS.search(question) is not None


def related(query: list[str]) -> dict[str, str]:
    """Return terms that the field uses for the same thing, each with the query word it stands for. Query words are left out."""
    rings = _rings()
    meant: dict[str, str] = {}
    for size in (1, 2, 3):
        for start in range(len(query) - size + 1):
            for other in rings.get(tuple(query[start : start + size]), ()):
                for word in other:
                    if word not in query:
                        meant.setdefault(word, query[start])
    return meant


def functional(text: str) -> list[str]:
    """Return the stop words of `text` as index terms: `'should` of "should I use it"."""
    low = (token.lower() for token in _tokens(text))
    return [f"'{word}" for word in low if word in STOP_WORDS and word not in KEPT]


def spelled(word: str, vocabulary: frozenset[str] | set[str], frequency: Callable[[str], int] = len) -> str | None:
    """Return the likeliest word of `vocabulary` for a misspelt one, or None.

    One edit away first, of each kind the word that most sections have; for a long word then the closest by its first letter.
    """
    if found := edited(word, vocabulary, frequency):
        return found
    if len(word) < _LONG:
        return None
    alike = (other for other in vocabulary if other[0] == word[0] and abs(len(other) - len(word)) <= _SHORTER)
    return next(iter(difflib.get_close_matches(word, alike, 1, _CLOSE)), None)


def edited(word: str, vocabulary: frozenset[str] | set[str], frequency: Callable[[str], int] = len) -> str | None:
    """Return a word one edit away: two letters swapped, one too many or missing, f for ph, another letter.

    A word of four letters may be short of one, have two swapped or f for ph: any other edit makes it another word.
    """
    letters = "abcdefghijklmnopqrstuvwxyz"
    splits = [(word[:cut], word[cut:]) for cut in range(len(word) + 1)]
    swapped = (head + tail[1] + tail[0] + tail[2:] for head, tail in splits if len(tail) > 1)
    later = splits[1:]  # a wrong first letter is rare: `bread` is not a slip for `read`
    added = (head + letter + tail for head, tail in splits for letter in letters)
    dropped = (head + tail[1:] for head, tail in later if tail)
    sounded = [word.replace("f", "ph")]
    replaced = (head + letter + tail[1:] for head, tail in later if tail for letter in letters)
    for edits in (swapped, chain(dropped, added), sounded, replaced) if len(word) > 4 else (swapped, added, sounded):
        if found := vocabulary.intersection(edits):
            return max(sorted(found), key=frequency)
    return None
