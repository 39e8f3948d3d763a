"""The programs of references/trainers.md, run with the real libraries beside the same training without a graph.

    python tests/trainers.py run > out.json   on a CPU or GPU, with torch, lightning, transformers and accelerate
    python tests/trainers.py keep out.json    back here: becomes tests/evidence/trainers.json

Each program trains a small model; a plain loop, or the library's own step, trains a copy on the same batches. `differs` is the
largest difference of their weights, which `allowed` bounds; `signatures` are those of the library's methods that a program
overrides or calls. On a GPU the program captures, so that the comparison is one of replays with eager.
"""

from __future__ import annotations

import contextlib
import copy
import datetime as dt
import importlib
import importlib.metadata
import inspect
import json
import platform
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "tests" / "evidence" / "trainers.json"
REFERENCE = "references/trainers.md"
PACKAGES = ("torch", "lightning", "transformers", "accelerate")
_BATCHES, _ROWS = 9, 16
_ALLOWED = 1e-5  # of weights after nine steps: a graph adds gradients to zeros where eager sets them


def programs() -> dict[str, str]:
    """Return the programs of the reference by their names, which stand on their first lines."""
    texts: dict[str, str] = {}
    for part in (ROOT / REFERENCE).read_text(encoding="utf-8").split("```python\n# ")[1:]:
        name, _, rest = part.partition("\n")
        texts[name.removesuffix(".py")] = f"# {name}\n{rest.partition('```')[0]}"
    return texts


def _data() -> tuple[Any, list[tuple[Any, Any]]]:
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    return net, [(torch.randn(_ROWS, 12), torch.randint(0, 4, (_ROWS,))) for _ in range(_BATCHES)]


def _loader(batches: list[tuple[Any, Any]]) -> Any:
    import torch

    rows = [(x, y) for xs, ys in batches for x, y in zip(xs, ys, strict=True)]
    return torch.utils.data.DataLoader(rows, batch_size=_ROWS)  # type: ignore[arg-type, unused-ignore]


def _plain(net: Any, batches: list[tuple[Any, Any]], every: int = 1) -> None:
    """Train with SGD, one step for `every` batches."""
    import torch

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    device = next(net.parameters()).device
    for number, (x, y) in enumerate(batches, 1):
        (torch.nn.functional.cross_entropy(net(x.to(device)), y.to(device)) / every).backward()
        if number % every == 0:
            optimizer.step()
            optimizer.zero_grad()


def _furthest(one: Any, other: Any) -> float:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return max(float((mine.detach().cpu() - theirs.detach().cpu()).abs().max()) for mine, theirs in pairs)


def graphed_lightning(program: Any) -> float:
    """Train with Lightning, and validate in between, which would drop the gradients."""
    import lightning

    class Validated(program.Graphed):  # type: ignore[misc]
        def validation_step(self, batch: Any, _: int) -> None:
            self.net(batch[0])

    net, batches = _data()
    plain = copy.deepcopy(net)
    trainer = lightning.Trainer(
        max_epochs=1, devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, val_check_interval=3,
        enable_model_summary=False, num_sanity_val_steps=0,
    )  # fmt: skip
    trainer.fit(Validated(net), _loader(batches), _loader(batches[:1]))
    if trainer.global_step != _BATCHES:
        raise AssertionError(f"{trainer.global_step} steps were counted, not {_BATCHES}")
    _plain(plain.to(next(net.parameters()).device), batches)
    return _furthest(net, plain)


def graphed_trainer(program: Any) -> float:
    """Train with transformers' Trainer, two micro-batches a step and a smaller last batch, and with its own step."""
    import transformers
    from transformers import BertConfig, BertForSequenceClassification

    _, batches = _data()
    config = BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, num_labels=4,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = BertForSequenceClassification(config)
    rows = [
        {"input_ids": (row[:8].abs() * 10).long() % 40, "labels": label}
        for x, y in batches
        for row, label in zip(x, y, strict=True)
    ][:-4]
    trained = []
    for kind in (program.GraphedTrainer, transformers.Trainer):
        mine = copy.deepcopy(model)
        with tempfile.TemporaryDirectory() as folder:
            arguments = transformers.TrainingArguments(
                folder, num_train_epochs=2, per_device_train_batch_size=_ROWS, gradient_accumulation_steps=2, optim="sgd",
                learning_rate=0.1, logging_nan_inf_filter=False, save_strategy="no", report_to=[], disable_tqdm=True,
            )  # fmt: skip
            kind(model=mine, args=arguments, train_dataset=rows).train()
        trained.append(mine)
    if _furthest(trained[0], model) < 10 * _ALLOWED:
        raise AssertionError("nothing was trained")
    return _furthest(*trained)


def graphed_accelerate(program: Any) -> float:
    """Train with accelerate, with three micro-batches for each step."""
    import torch
    from accelerate import Accelerator

    net, batches = _data()
    plain = copy.deepcopy(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    accelerator = Accelerator(gradient_accumulation_steps=3)
    prepared, optimizer, loader = accelerator.prepare(net, optimizer, _loader(batches))
    step = program.Step(accelerator, prepared, optimizer)
    for x, y in loader:
        step(x, y)
    _plain(plain.to(next(net.parameters()).device), batches, every=3)
    return _furthest(net, plain)


_TRAINED: dict[str, Callable[[Any], float]] = {
    trained.__name__: trained for trained in (graphed_lightning, graphed_trainer, graphed_accelerate)
}
METHODS = {
    "graphed_lightning": (
        "lightning.LightningModule.training_step", "lightning.LightningModule.manual_backward",
        "lightning.LightningModule.on_validation_model_zero_grad", "lightning.LightningModule.configure_optimizers",
        "lightning.LightningModule.optimizers", "lightning.LightningModule.log",
    ),
    "graphed_trainer": ("transformers.Trainer.training_step", "transformers.Trainer._prepare_inputs"),
    "graphed_accelerate": (
        "accelerate.Accelerator.prepare", "accelerate.Accelerator.backward", "accelerate.Accelerator.accumulate",
        "accelerate.optimizer.AcceleratedOptimizer.step", "accelerate.optimizer.AcceleratedOptimizer.zero_grad",
    ),
}  # fmt: skip


def _signature(path: str) -> dict[str, list[str]]:
    """Return the names of a method's arguments, without self, and those of them that need no value."""
    package, *names = path.split(".")
    found = importlib.import_module(package)
    for name in names:
        found = getattr(found, name, None) or importlib.import_module(f"{found.__name__}.{name}")
    listed = [each for each in inspect.signature(found).parameters.values() if each.name != "self"]  # type: ignore[arg-type]
    free = [
        each.name for each in listed if each.default is not each.empty or each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    return {"arguments": [each.name for each in listed], "optional": free}


def _run() -> dict[str, Any]:
    import torch

    warnings.simplefilter("ignore")
    results = []
    texts = programs()
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, f"{name}.py").write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        for name, trained in _TRAINED.items():
            row: dict[str, Any] = {"name": name, "text": texts[name], "helper": texts["recorded"]}
            try:
                row |= {"differs": trained(importlib.import_module(name)), "allowed": _ALLOWED}
            except Exception:  # noqa: BLE001 - a row says what failed
                row["error"] = traceback.format_exc()[-1500:]
            results.append(row | {"signatures": {path: _signature(path) for path in METHODS[name]}})
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    versions = {package: importlib.metadata.version(package) for package in PACKAGES}
    now = dt.datetime.now(dt.UTC).date().isoformat()
    return {"date": now, "gpu": gpu, "python": platform.python_version(), **versions, "results": results}


def main() -> None:
    """Run `run` or `keep FILE`."""
    match sys.argv[1:]:
        case ["run"]:
            with contextlib.redirect_stdout(sys.stderr):  # the libraries print
                found = _run()
            print(json.dumps(found, indent=1))
        case ["keep", file]:
            EVIDENCE.write_text(Path(file).read_text(encoding="utf-8"), encoding="utf-8")
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
