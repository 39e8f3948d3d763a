"""Split fixes into sentences, and leave out what is about frameworks that a log does not show."""

from __future__ import annotations

import re

# Libraries that fixes name, by words of a log that shows them.
_FRAMEWORKS = {
    "vLLM": ("vllm",),
    "SGLang": ("sglang",),
    "Megatron": ("megatron", "mcore"),
    "MCore": ("megatron", "mcore"),
    "Transformer Engine": ("transformer_engine", "transformer engine"),
    "TE": ("transformer_engine", "transformer engine"),
    "TensorRT-LLM": ("tensorrt_llm", "tensorrt-llm", "trtllm"),
    "Lightning": ("lightning",),
    "DeepSpeed": ("deepspeed",),
    "DeepEP": ("deep_ep", "deepep"),
    "DeepGEMM": ("deep_gemm", "deepgemm"),
    "FlashInfer": ("flashinfer",),
    "diffusers": ("diffusers",),
    "ComfyUI": ("comfy",),
    "accelerate": ("accelerate",),
    "Hugging Face": ("transformers", "huggingface", "hugging face", "accelerate"),
    "NeMo": ("nemo",),
    "verl": ("verl",),
    "Triton": ("triton", "inductor"),
    "torch.compile": ("inductor", "dynamo", "torch.compile", "torch/_compile", "cudagraph_trees", "cudagraphs"),
    "DDP": ("distributeddataparallel", "ddp", "torchrun"),
    "FSDP": ("fsdp", "fully_shard"),
    "FSDP2": ("fsdp", "fully_shard"),
    "Server": ("vllm", "sglang", "tensorrt", "engine"),
}
_LONG = 200  # characters of a sentence from which on each of its clauses gets a line
_ABBREVIATED = re.compile(r"(?:e\.g|i\.e|vs|cf|etc)\.$")


def sentences(text: str, log: str) -> tuple[list[str], int]:
    """Return the sentences of a fix, and how many clauses about frameworks that `log` does not show were left out.

    Where no other clause is left, all are kept: advice about a neighbouring framework is better than none.
    """
    shown = log.lower()
    kept: list[str] = []
    left_out = 0
    for sentence in _split(text, ". "):
        clauses = _split(sentence, "; ")
        fitting = [clause for clause in clauses if _concerns(clause, shown)]
        left_out += len(clauses) - len(fitting)
        lines = fitting if len(sentence) > _LONG else ["; ".join(fitting)] if fitting else []
        kept += [line.rstrip(".;") + "." for line in lines]
    return (kept, left_out) if kept else (_split(text, ". ") or [text], 0)


def _concerns(clause: str, log: str) -> bool:
    """Tell whether a clause names no framework, or one that the log shows."""
    named = [words for name, words in _FRAMEWORKS.items() if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", clause)]
    return not named or any(word in log for words in named for word in words)


def _split(text: str, mark: str) -> list[str]:
    """Split a text behind each mark that stands outside of code and brackets, and ends no abbreviation."""
    parts, start, depth, code = [], 0, 0, False
    for place, character in enumerate(text):
        if character == "`":
            code = not code
        elif not code:
            depth += (character in "([{") - (character in ")]}")
        ends = not code and depth <= 0 and text.startswith(mark, place)
        if ends and not _ABBREVIATED.search(text[start : place + 1]):
            parts.append(text[start : place + 1].rstrip(";").strip())
            start = place + len(mark)
    return [part for part in [*parts, text[start:].strip()] if part]
