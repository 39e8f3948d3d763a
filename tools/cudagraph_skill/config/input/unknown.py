"""Tell what a word of a command may be that is not known: the value of a flag, or more flags."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_skill.config.input.expand import Word

# Flags of Megatron-LM that take no value, and those that take several, from the parsers of Megatron-Core 0.14.0 to 0.19.0 and main; a
# flag with a `no-` form stands once.
_ALONE = frozenset(
    (
        "account-for-embedding-in-pipeline-split account-for-loss-in-pipeline-split accumulate-allreduce-grads-in-fp32 "
        "add-qkv-bias adlr-autoresume allow-ambiguous-pad-tokens apply-layernorm-1p apply-query-key-layer-scaling "
        "apply-residual-connection-post-layernorm apply-wd-to-qk-layernorm async-ckpt-use-cpu-shm async-save "
        "attention-output-gate attention-softmax-in-fp32 auto-detect-ckpt-format batch-invariant-mode bert-no-binary-head bf16 "
        "biencoder-shared-query-context-model cache-mla-latents calc-ft-timeouts calculate-per-token-loss check-for-large-grads "
        "check-for-spiky-loss checkpoint-activations ckpt-assume-constant-structure ckpt-convert-update-legacy-dist-opt-format "
        "ckpt-drop-redundant-extra-state ckpt-fully-parallel-load ckpt-fully-parallel-load-per-rank-objects "
        "ckpt-fully-parallel-save ckpt-pg-tensors-cache-create cpu-offloading-retain-pinned-cpu-buffers create-all-gather-group "
        "cross-entropy-loss-fusion data-parallel-random-init dataloader-defer-npy-index-mmap dataloader-fast-cache-load "
        "dataloader-inter-document-masking ddp-average-in-collective ddp-pad-buckets-for-high-nccl-busbw "
        "ddp-reduce-scatter-with-fp32-accumulation decode-only-cuda-graphs decrease-batch-size-if-needed "
        "defer-embedding-wgrad-compute delay-offload-until-cuda-graph delay-wgrad-compute deterministic-mode "
        "dino-norm-last-layer disable-align-grad-reduce disable-async-tensor-model-parallel-allreduce "
        "disable-bf16-reduced-precision-matmul disable-bias-linear disable-chunked-prefill disable-ckpt-fully-parallel-save "
        "disable-ckpt-load-validate-sharding-integrity disable-clone-scatter-output-in-embedding "
        "disable-dsa-indexer-rotate-activation disable-dsa-indexer-scoring-relu disable-flight-recorder-dump-on-timeout "
        "disable-flight-recorder-extra-dump-on-exec disable-flight-recorder-include-only-active disable-fp8-wgrad "
        "disable-gloo-process-groups disable-jit-fuser disable-log-loss-scale-to-tensorboard disable-mamba-mem-eff-path "
        "disable-manual-gc-eval disable-msc disable-pad-vocab-size disable-save-tokenizer-assets disable-straggler-on-startup "
        "disable-stream-ckpt-dequant disable-strict-fsdp-dtensor-load disable-symmetric-registration "
        "disable-tokenizer-sentencepiece-ignore-extra-whitespaces disable-tp-comm-bulk-dgrad disable-tp-comm-bulk-wgrad "
        "disable-tp-comm-overlap-ag disable-tp-comm-overlap-rs disable-tp-comm-split-ag disable-tp-comm-split-rs "
        "disable-use-tokenizer-model-from-checkpoint-args dist-ckpt-optim-fully-reshardable dist-ckpt-save-pre-mcore-014 "
        "distrib-optim-fully-reshardable-mem-efficient distribute-saved-activations dsa-indexer-k-norm-fp32 "
        "dsa-indexer-rope-interleaved dsa-indexer-use-sparse-loss enable-chunked-prefill enable-cuda-graph enable-experimental "
        "enable-ft-package enable-full-sharding-in-hsdp enable-mhc-connections enable-msc eod-mask-loss "
        "ep-overlap-early-attn-memory-release exit-on-missing-checkpoint exit-signal-handler exit-signal-handler-for-dataloader "
        "exit-signal-handler-for-training external-cuda-graph fake-process-group fim-data fine-grained-activation-offloading "
        "finetune first-last-layers-bf16 flash-decode flight-recorder-include-stack-trace fp16 fp16-lm-cross-entropy "
        "fp32-residual-connection fp4-param-gather fp8-output-proj fp8-param-gather freeze-all-layers "
        "fsdp-db-use-persist-buf-on-alloc-fail fsdp-double-buffer fsdp-manual-registration full-validation "
        "fused-residual-rmsnorm gdp-cutedsl-kernel grad-reduce-in-bf16 group-query-attention "
        "grpo-filter-groups-with-same-reward gtp-expert-remat-nccl-ub gtp-remat-nccl-ub "
        "gtp-remat-reduce-scatter-with-fp32-accumulation help high-priority-a2a-comm-stream hybrid-context-parallel "
        "inference-cuda-graph-all-prefills inference-disable-ep-consensus inference-disable-triton-nvls-kernels "
        "inference-dynamic-batching inference-dynamic-batching-prefix-caching "
        "inference-dynamic-batching-track-generated-token-events inference-dynamic-batching-track-paused-request-events "
        "inference-fuse-tp-communication inference-moe-disable-fused-quant-kernels inference-rng-tracker "
        "inference-text-gen-server-logging inference-use-synchronous-zmq-collectives inference-wandb-logging "
        "init-method-xavier-uniform init-model-with-meta-device inprocess-empty-cuda-cache inprocess-restart is-hybrid-model "
        "keep-fp8-transpose-cache langrl-external-server lazy-mpu-init legacy-tokenizer load-main-params-from-ckpt "
        "load-model-opt-format log-device-memory-used log-energy log-max-attention-logit log-memory-to-tensorboard "
        "log-num-zeros-in-grad log-params-norm log-progress log-straggler log-throughput log-timers-to-tensorboard "
        "log-validation-ppl-to-tensorboard log-world-size-to-tensorboard logits-load-ignore-errors manual-gc "
        "megatron-fsdp-enable-fine-grained-param-gather megatron-fsdp-max-pool-double-buffer mla-down-proj-fusion mock-data "
        "moe-apply-probs-on-input moe-enable-deepep moe-enable-routing-replay moe-extended-tp moe-grouped-gemm "
        "moe-hybridep-pad-uneven-dispatch-inputs moe-layer-recompute moe-ncclep-static-shape moe-ncclep-zero-copy "
        "moe-pad-expert-input-to-capacity moe-pad-experts-for-cuda-graph-inference moe-paged-stash moe-per-layer-logging "
        "moe-permute-fusion moe-permute-fusion-into-hybridep moe-router-enable-expert-bias moe-router-force-load-balancing "
        "moe-router-fusion moe-router-padding-for-fp8 moe-router-padding-for-quantization moe-router-pre-softmax "
        "moe-routing-trace-capture-hidden-states moe-routing-trace-capture-logits moe-routing-trace-dump-weights "
        "moe-shared-expert-gate moe-shared-expert-overlap moe-single-grouped-bias moe-single-grouped-weight "
        "moe-use-grouped-tensor moe-use-legacy-grouped-gemm moe-use-upcycling mtp-detach-heads mtp-hsm mtp-standalone "
        "mtp-use-repeated-layer multi-latent-attention multiple-validation-sets muon-nesterov muon-no-split-qkv "
        "muon-use-nesterov muon-use-syrk nccl-all-reduce-for-prefill no-align-grad-reduce no-align-param-gather "
        "no-async-tensor-model-parallel-allreduce no-barrier-with-level-1-timing no-bias-dropout-fusion no-bias-gelu-fusion "
        "no-bias-swiglu-fusion no-check-for-nan-in-loss-and-grad no-ckpt-load-validate-sharding-integrity "
        "no-clone-scatter-output-in-embedding no-create-attention-mask-in-dataloader no-data-sharding "
        "no-dsa-indexer-rotate-activation no-dsa-indexer-scoring-relu no-flight-recorder-dump-on-timeout "
        "no-flight-recorder-extra-dump-on-exec no-flight-recorder-include-only-active no-fp8-wgrad "
        "no-gradient-accumulation-fusion no-gradient-reduce-div-fusion no-initialization no-load-optim no-load-rng "
        "no-log-loss-scale-to-tensorboard no-manual-gc-eval no-masked-softmax-fusion no-mmap-bin-files no-one-logger "
        "no-overlap-p2p-communication no-pad-vocab-size no-persist-layer-norm no-pin-cpu-grads no-pin-cpu-params "
        "no-position-embedding no-rope-fusion no-save-optim no-save-rng no-save-tokenizer-assets "
        "no-scatter-gather-tensors-in-pipeline no-stream-ckpt-dequant no-strict-fsdp-dtensor-load "
        "no-tokenizer-sentencepiece-ignore-extra-whitespaces no-tp-comm-bulk-dgrad no-tp-comm-bulk-wgrad no-tp-comm-overlap-ag "
        "no-tp-comm-overlap-rs no-tp-comm-split-ag no-tp-comm-split-rs no-use-layer-wise-param-layout "
        "no-use-tokenizer-model-from-checkpoint-args nvtx-ranges one-logger-async openai-gelu optimizer-cpu-offload "
        "optimizer-cuda-graph otel-enabled output-bert-embeddings overlap-cpu-optimizer-d2h-h2d "
        "overlap-dispatch-backward-with-experts-wgrad overlap-grad-reduce overlap-moe-expert-parallel-comm "
        "overlap-p2p-communication-warmup-flush overlap-param-gather overlap-param-gather-with-optimizer-step "
        "override-opt-param-scheduler override-opt_param-scheduler perform-rl-step profile pytorch-profiler-collect-callstack "
        "pytorch-profiler-collect-chakra pytorch-profiler-collect-shapes qk-clip qk-l2-norm qk-layernorm quick-geglu "
        "recompute-activations record-memory-history record-shapes replication reset-attention-mask reset-position-ids "
        "retriever-score-scaling retro-add-retriever retro-no-verify-neighbor-count reuse-grad-buf-for-mxfp8-param-ag "
        "rl-calculate-intra-group-similarity rl-durable-rollout-bank rl-inference-logprobs-is-correction "
        "rl-offload-inference-model-weights-when-idle rl-offload-kv-cache-during-training rl-offload-optimizer-during-inference "
        "rl-partial-rollouts rl-persist-cuda-graphs rl-profile rl-remove-kv-cache-during-training rl-reset-cuda-graphs "
        "rl-skip-bos-token rl-training-cuda-graphs rl-use-sequence-packing rl-verify-model-weights-swap rotary-interleaved "
        "run-workload-inspector-server sequence-parallel sft skip-train squared-relu swiglu te-rng-tracker test-mode "
        "tokenizer-hf-include-special-tokens tokenizer-hf-no-include-special-tokens tokenizer-hf-no-use-fast "
        "tokenizer-hf-use-fast tokenizer-sentencepiece-legacy torch-fsdp2-no-reshard-after-forward tp-comm-overlap "
        "tp-comm-overlap-rs-dgrad trust-remote-code untie-embeddings-and-output-weights use-checkpoint-args "
        "use-checkpoint-opt-param-scheduler use-checkpoint-opt_param-scheduler use-cpu-initialization use-dist-ckpt "
        "use-distributed-optimizer use-flash-attn use-fused-weighted-squared-relu use-gigatoken use-grouped-gemm-for-dense-mlp "
        "use-grouped-gemm-for-shared-expert use-kitchen-attention use-legacy-models use-legacy-static-engine use-mcore-models "
        "use-megatron-fsdp use-mp-args-from-checkpoint-args use-mup use-nccl-ub use-one-sent-docs use-persistent-ckpt-worker "
        "use-precision-aware-optimizer use-pytorch-profiler use-ring-exchange-p2p use-rope-scaling "
        "use-rotary-position-embeddings use-same-sampling-seed-across-dp-ranks use-sharp use-te-activation-func use-torch-fsdp2 "
        "use-torch-optimizer-for-cpu-offload use-tp-pp-dp-mapping use-transformer-engine-op-fuser verify-integrity "
        "vision-pretraining yarn-correction-range-round-to-int "
    ).split()
)
_SEVERAL = frozenset(
    (
        "cp-comm-type cuda-graph-modules cuda-graph-scope data-path ddp-param-name-patterns-for-fp32-local-accumulation "
        "gtp-remat-opt-in-modules hierarchical-context-parallel-sizes high-priority-stream-groups iterations-to-skip "
        "moe-aux-loss-coeff moe-router-load-balancing-type mrope-section offload-modules profile-ranks rampup-batch-size "
        "recompute-modules retriever-report-topk-accuracies rl-inference-parsers spec test-data-path tiktoken-special-tokens "
        "tokenizer-special-tokens train-data-path valid-data-path validation-set-names "
    ).split()
)
_EXPANSION = re.compile(
    r"\$\{[^{}]*\}|\$\(\([^()]*(?:\([^()]*\)[^()]*)*\)\)|\$\([^()]*(?:\([^()]*\)[^()]*)*\)|`[^`]*`|\$\w+|\$[@*#?]"
)
_NUMBER = re.compile(r"\$\(\(.*\)\)", re.DOTALL)
_OF_SCRIPT = re.compile(r"\$(\{[@*]\}|[@*])")
_LOOKS_LIKE_FLAGS = re.compile(r"ARG|OPTS|OPTION|PARAM|FLAG|EXTRA|CMD|COMMAND|KWARG|OVERRIDE|SETTING", re.IGNORECASE)


class Unknown(NamedTuple):
    """The words of a command that are not known.

    Attributes:
        flags: Those that may hold flags.
        values: Those that are values of flags, parts of a path, or options of what starts the program.
        given: Those that stand for the arguments of the script itself.
    """

    flags: list[Word]
    values: list[Word]
    given: list[Word]


def sorted_out(text: str, words: Sequence[Word]) -> Unknown:
    """Return the words that are not known, by what they may be."""
    found = Unknown([], [], [])
    start = _program(words)
    for at, word in enumerate(words):
        if not word.unread or word.text.startswith(("$SLURM", "${SLURM")):
            continue
        if at < start:
            found.values.append(word)
        elif _OF_SCRIPT.fullmatch(word.text):
            found.given.append(word)
        elif _may_hold_flags(text, words, at):
            found.flags.append(word)
        else:
            found.values.append(word)
    return found


def _program(words: Sequence[Word]) -> int:
    """Return the index of the program that gets the flags: what stands before it is for the launcher."""
    for at, word in enumerate(words):
        if word.text.endswith(".py"):
            return at
    return next((at for at, word in enumerate(words) if word.text == "-m"), -1) + 1


def _may_hold_flags(text: str, words: Sequence[Word], at: int) -> bool:
    word = words[at]
    if re.search(r"\s", word.text) and not _EXPANSION.fullmatch(word.text):
        return _holds_flags_in_pieces(word.text)
    if word.text.startswith("-"):
        return "=" not in _EXPANSION.sub("", word.text)
    if _NUMBER.fullmatch(word.text) or re.search(r"\w", _EXPANSION.sub("", word.text)):
        return False  # a number, or a path or a name with a part that is not known
    if _is_one_word(text[word.start : word.end], word.text):
        return False
    return _may_hold_flags_behind([other.text for other in words[:at]], word.text)


def _holds_flags_in_pieces(text: str) -> bool:
    """Decide for a text of several words, such as "--load $FOLDER"."""
    pieces = text.split()
    unknown = [at for at, piece in enumerate(pieces) if _EXPANSION.search(piece)]
    bare = [at for at in unknown if not re.search(r"\w", _EXPANSION.sub("", pieces[at]))]
    return "cuda-graph" in text or any(_may_hold_flags_behind(pieces[:at], pieces[at]) for at in bare)


def _is_one_word(raw: str, text: str) -> bool:
    """Return whether quotes keep it one word, as `"$NAME"` and not `"${NAMES[@]}"`."""
    return raw.startswith(('"', '\\"')) and not re.search(r"\[[@*]\]", text)


def _may_hold_flags_behind(before: Sequence[str], text: str) -> bool:
    """Return whether an unquoted variable behind these words may hold flags, and is not the value of the last flag."""
    if not before or _LOOKS_LIKE_FLAGS.search(text):
        return True
    flag = next((at for at in range(len(before) - 1, -1, -1) if re.match(r"--?[A-Za-z]", before[at])), None)
    if flag is None:
        return True
    name = before[flag].lstrip("-")
    if "=" in name or name in _ALONE or (name.startswith("no-") and name[3:] in _ALONE):
        return True
    behind = flag < len(before) - 1
    if text.endswith(("[@]}", "[*]}")):
        return behind or name not in _SEVERAL
    return behind and name not in _SEVERAL
