"""Write the data that the programs of programs.json read: random, small, in the formats that they expect.

Each function takes the folder of a copy of the repository. Their names are the `prepare` of programs.json.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import random
import struct
import sys
from pathlib import Path
from typing import Any

_WORDS = "the a model graph of to and replay step batch learns from data when it is small or large then stops again".split()


def _generator() -> Any:
    return importlib.import_module("numpy").random.default_rng(0)


def _torch() -> Any:
    import torch

    torch.manual_seed(0)
    return torch


# Images ---------------------------------------------------------------------------------------------------------------


def _idx(path: Path, array: Any) -> None:
    """Write an array of bytes in the format of MNIST."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


def _mnist(folder: Path, train: int, test: int) -> None:
    rng = _generator()
    for name, count in (("train", train), ("t10k", test)):
        _idx(folder / "MNIST" / "raw" / f"{name}-images-idx3-ubyte", rng.integers(0, 256, (count, 28, 28), "uint8"))
        _idx(folder / "MNIST" / "raw" / f"{name}-labels-idx1-ubyte", rng.integers(0, 10, count).astype("uint8"))


def mnist(root: Path) -> None:
    """Write MNIST with few images where torchvision has them from `../data`."""
    _mnist(root / "data", 1024, 1024)
    (root / "vae" / "results").mkdir(parents=True, exist_ok=True)


def mnist_of_fabric(root: Path) -> None:
    """Write MNIST beside the repository of Lightning, as its example of Fabric reads it."""
    _mnist(root / "Datasets", 1024, 256)


def mnist_of_lightning(root: Path) -> None:
    """Write the tensors that Lightning's own MNIST reads; its example splits 60,000 images."""
    torch = _torch()
    folder = root / "examples" / "Datasets" / "MNIST" / "complete"
    folder.mkdir(parents=True)
    for name, count in (("training", 60000), ("test", 64)):
        images = torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8)
        torch.save((images, torch.randint(0, 10, (count,))), folder / f"{name}.pt")


def cifar(root: Path) -> None:
    """Write the tensors that the speedrun of CIFAR-10 keeps of the data set."""
    torch = _torch()
    (root / "cifar10").mkdir()
    for name, count in (("train", 6000), ("test", 2000)):
        images = torch.randint(0, 256, (count, 32, 32, 3), dtype=torch.uint8)
        kept = {"images": images, "labels": torch.randint(0, 10, (count,)), "classes": [str(each) for each in range(10)]}
        torch.save(kept, root / "cifar10" / f"{name}.pt")


def _images(folder: Path, count: int, side: int, seed: int | None = None) -> None:
    """Write images of noise; of one `seed` they differ, else they are all alike."""
    image = importlib.import_module("PIL.Image")
    rng = importlib.import_module("numpy").random.default_rng(seed)
    folder.mkdir(parents=True)
    for number in range(count):
        rng = _generator() if seed is None else rng
        image.fromarray(rng.integers(0, 256, (side, side, 3), "uint8")).save(folder / f"{number:03d}.png")


def super_resolution(root: Path) -> None:
    """Write photographs of noise where the data set of Berkeley would be unpacked."""
    for name, count in (("train", 16), ("test", 8)):
        _images(root / "super_resolution" / "dataset" / "BSDS300" / "images" / name, count, 280)


def image_folder(root: Path) -> None:
    """Write a folder of images without classes."""
    _images(root / "examples" / "unconditional_image_generation" / "images", 64, 32)


def image_classes(root: Path) -> None:
    """Write images of two classes, and a checkpoint of a model with random weights."""
    torch, timm = _torch(), importlib.import_module("timm")
    torch.save(timm.create_model("resnet18", num_classes=10).state_dict(), root / "resnet18.pth")
    for name in ("first", "second"):
        _images(root / "images" / "validation" / name, 160, 64)


def images_of_one_class(root: Path) -> None:
    """Write a folder of images as torchvision's ImageFolder reads it."""
    _images(root / "images" / "noise", 96, 32, 0)


def unpaired_images(root: Path) -> None:
    """Write two sets of images as the CycleGAN reads them."""
    seed = 0
    for mode, count in (("train", 75), ("test", 10)):
        for name in ("A", "B"):
            _images(root / "data" / "noise" / mode / name, count, 40, seed)
            seed += 1


# Text -----------------------------------------------------------------------------------------------------------------


def _sentence(rng: random.Random, words: int) -> str:
    return " ".join(rng.choice(_WORDS) for _ in range(words))


def corpus(root: Path) -> None:
    """Write the three texts of the word language model."""
    rng, folder = random.Random(0), root / "word_language_model" / "data" / "wikitext-2"
    folder.mkdir(parents=True)
    for name, lines in (("train", 600), ("valid", 60), ("test", 60)):
        text = "".join(f" {_sentence(rng, 12)} \n" for _ in range(lines))
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")


def names(root: Path) -> None:
    """Write made-up names, one a line."""
    rng = random.Random(0)
    made = ["".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9))) for _ in range(2000)]
    (root / "names.txt").write_text("\n".join(made) + "\n", encoding="utf-8")


def characters(root: Path) -> None:
    """Write random characters as nanoGPT keeps them."""
    folder, letters = root / "data" / "letters", "\nabcdefghijklmnopqrstuvwxyz"
    folder.mkdir(parents=True)
    for name, count in (("train", 20000), ("val", 4000)):
        _generator().integers(0, len(letters), count).astype("uint16").tofile(folder / f"{name}.bin")
    meta = {"vocab_size": len(letters), "itos": dict(enumerate(letters)), "stoi": {each: n for n, each in enumerate(letters)}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def checkpoint_of_nanogpt(root: Path) -> None:
    """Write a checkpoint of a small model with random weights, and the characters that it knows."""
    torch = _torch()
    characters(root)
    model = _module(root, "model")
    sizes = {"n_layer": 2, "n_head": 4, "n_embd": 128, "block_size": 64, "bias": False, "vocab_size": 27, "dropout": 0.0}
    (root / "out").mkdir()
    weights = model.GPT(model.GPTConfig(**sizes)).state_dict()
    torch.save({"model": weights, "model_args": sizes, "config": {"dataset": "letters"}}, root / "out" / "ckpt.pt")


def stories(root: Path) -> None:
    """Write two shards of random tokens as llama2.c keeps its stories."""
    folder = root / "data" / "TinyStories_all_data"
    folder.mkdir(parents=True)
    for number in range(2):
        _generator().integers(1, 32000, 40000).astype("uint16").tofile(folder / f"data{number:02d}.bin")


def checkpoint_of_gpt_fast(root: Path) -> None:
    """Write a checkpoint of the smallest model with random weights, and a tokenizer trained on random sentences."""
    torch = _torch()
    pieces = importlib.import_module("sentencepiece")
    folder, rng = root / "checkpoints" / "stories15M", random.Random(0)
    folder.mkdir(parents=True)
    (folder / "text").write_text("\n".join(_sentence(rng, 12) for _ in range(400)), encoding="utf-8")
    options = {"vocab_size": 400, "hard_vocab_limit": False, "model_type": "bpe", "byte_fallback": True, "minloglevel": 2}
    pieces.SentencePieceTrainer.train(input=str(folder / "text"), model_prefix=str(folder / "tokenizer"), **options)
    known = pieces.SentencePieceProcessor(str(folder / "tokenizer.model")).vocab_size()
    weights = _module(root, "model").Transformer.from_name("stories15M").state_dict()
    weights["output.weight"][known:] = 0  # tokens that the tokenizer lacks are not among the most likely
    torch.save(weights, folder / "model.pth")


def preferences(root: Path) -> None:
    """Write pairs of answers of which one is preferred, plain text, and a model with random weights."""
    torch = _torch()
    rng = random.Random(0)
    texts = [{"text": _sentence(rng, 60)} for _ in range(200)]
    pairs = [{name: _conversation(rng) for name in ("chosen", "rejected")} for _ in range(200)]
    for name, rows in (("text", texts), ("pairs", pairs)):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows)
        (root / "dataset" / f"{name}.jsonl").write_text(lines, encoding="utf-8")
    model = _module(root, "model.model_minimind")
    (root / "out").mkdir()
    small = model.MiniMindConfig(hidden_size=128, num_hidden_layers=2, use_moe=False)
    torch.save(model.MiniMindForCausalLM(small).state_dict(), root / "out" / "full_sft_128.pth")


def _conversation(rng: random.Random) -> list[dict[str, str]]:
    return [{"role": role, "content": _sentence(rng, 20)} for role in ("user", "assistant")]


def _module(root: Path, name: str) -> Any:
    """Import a module of the program."""
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(root))


# Graphs ---------------------------------------------------------------------------------------------------------------


def _papers(folder: Path, nodes: int, words: int, citations: int) -> None:
    """Write papers of seven classes with words and citations, in the format of Cora."""
    rng = _generator()
    folder.mkdir(parents=True)
    found = rng.integers(0, 2, (nodes, words))
    rows = ["\t".join([str(n), *map(str, found[n]), f"Class{n % 7}"]) for n in range(nodes)]
    (folder / "cora.content").write_text("\n".join(rows) + "\n", encoding="utf-8")
    pairs = {tuple(sorted(pair)) for pair in rng.integers(0, nodes, (citations, 2)).tolist() if pair[0] != pair[1]}
    (folder / "cora.cites").write_text("".join(f"{a}\t{b}\n" for a, b in sorted(pairs)), encoding="utf-8")


def papers_of_gat(root: Path) -> None:
    """Write papers where the example of graph attention unpacks them."""
    _papers(root / "gat" / "cora", 1800, 32, 4000)


def papers_of_gcn(root: Path) -> None:
    """Write papers where the graph convolutional network has its own."""
    _papers(root / "data" / "cora", 1600, 32, 4000)


def planetoid(root: Path) -> None:
    """Write a citation graph in the files of Planetoid."""
    np, sparse, rng = importlib.import_module("numpy"), importlib.import_module("scipy.sparse"), _generator()
    folder = root / "data" / "Planetoid" / "Cora" / "raw"
    folder.mkdir(parents=True)
    train, rest, test, words = 140, 1000, 1000, 32
    nodes = train + rest + test
    features = sparse.csr_matrix(rng.integers(0, 2, (nodes, words)).astype("float32"))
    labels = np.eye(7, dtype="int32")[np.arange(nodes) % 7]
    neighbours = {n: [int(other) for other in rng.integers(0, nodes, 3)] for n in range(nodes)}
    parts = {
        "x": features[:train],
        "y": labels[:train],
        "tx": features[train + rest :],
        "ty": labels[train + rest :],
        "allx": features[: train + rest],
        "ally": labels[: train + rest],
        "graph": neighbours,
    }
    for name, part in parts.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(part))
    (folder / "ind.cora.test.index").write_text("".join(f"{n}\n" for n in range(train + rest, nodes)), encoding="utf-8")


def molecules(root: Path) -> None:
    """Write small graphs of two classes in the files of TUDataset."""
    rng, folder = random.Random(0), root / "data" / "TU" / "MUTAG" / "raw"
    folder.mkdir(parents=True)
    edges, graph_of, atoms, first = [], [], [], 1
    for graph in range(1, 301):
        count = rng.randint(8, 20)
        bonds = [(first + n, first + rng.randrange(n)) for n in range(1, count)]
        edges += [pair for a, b in bonds for pair in ((a, b), (b, a))]
        graph_of += [graph] * count
        atoms += [rng.randrange(5) for _ in range(count)]
        first += count
    columns: dict[str, list[Any]] = {
        "A": [f"{a}, {b}" for a, b in sorted(edges)],
        "graph_indicator": graph_of,
        "graph_labels": [rng.randrange(2) for _ in range(300)],
        "node_labels": atoms,
    }
    for name, rows in columns.items():
        (folder / f"MUTAG_{name}.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


def rings(root: Path) -> None:
    """Write graphs of 12 nodes with 4 neighbours each, so that all batches of a size have the same shapes."""
    rng, folder = random.Random(0), root / "dataset" / "RINGS"
    folder.mkdir(parents=True)
    rows: list[Any] = [200]
    for graph in range(200):
        rows.append(f"12 {graph % 2}")
        step = rng.choice((2, 3, 4, 5))
        for node in range(12):
            others = [(node + by) % 12 for by in (1, -1, step, -step)]
            rows.append(" ".join(map(str, [rng.randrange(5), 4, *others])))
    (folder / "RINGS.txt").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


# Games ---------------------------------------------------------------------------------------------------------------

_GYM = '''"""A stand-in for gym: one environment with a linear system driven by noise, in the interface of gym 0.25."""

import numpy as np


class Box:
    def __init__(self, high, count):
        self.high = np.full(count, high, dtype=np.float32)
        self.low = -self.high
        self.shape = (count,)
        self._rng = np.random.default_rng(0)

    def seed(self, seed):
        self._rng = np.random.default_rng(seed)

    def sample(self):
        return self._rng.uniform(self.low, self.high).astype(np.float32)


class Env:
    _max_episode_steps = 20

    def __init__(self):
        self.observation_space = Box(np.inf, 11)
        self.action_space = Box(1.0, 3)
        rng = np.random.default_rng(1)
        self._from_state = 0.3 * rng.normal(size=(11, 11))
        self._from_action = rng.normal(size=(3, 11))
        self.seed(0)

    def seed(self, seed):
        self._rng = np.random.default_rng(seed)

    def reset(self):
        self._count = 0
        self._state = self._rng.normal(size=11)
        return self._state

    def step(self, action):
        self._count += 1
        drive = self._state @ self._from_state + np.asarray(action) @ self._from_action
        self._state = np.tanh(drive) + 0.1 * self._rng.normal(size=11)
        return self._state, float(self._state[0]), self._count >= self._max_episode_steps, {}


def make(name):
    return Env()
'''


def environment(root: Path) -> None:
    """Write a module `gym` with one made-up environment, which the program steps."""
    (root / "gym.py").write_text(_GYM, encoding="utf-8")


def main() -> None:
    """Run the function NAME for FOLDER, in a process of its own: some import modules of the program."""
    name, folder = sys.argv[1:]
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # data is data: it needs no GPU
    {**globals()}[name](Path(folder))


if __name__ == "__main__":
    main()
