"""Train with each kind of Megatron and Transformer Engine graph, and compare losses and gradients with a run without graphs.

    python benchmarks/megatron_graphs.py run [WORD ...] > out.jsonl
        on a GPU machine with both packages; words choose cases by name
    python benchmarks/megatron_graphs.py keep out.jsonl ...
        back here: adds the rows to benchmarks/evidence/megatron_graphs.json
    python benchmarks/megatron_graphs.py [--check]
        prints them; --check exits with 1 if a result is not the one that is expected

The releases of Megatron-Core are looked for in $MEGATRON (or in `megatron` of the temporary folder) as `core-0.19.2`. Each case
trains the same small GPT with and without graphs, in a process each, six steps with an eager optimizer, and compares every
loss, and the gradients of every parameter in the first step in which one differs: `main_grad` after the backward of all
microbatches. A case that is expected to differ shows a fault of a release; one with a `change` shows its cause.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
EVIDENCE = HERE / "evidence" / "megatron_graphs.json"
MEGATRON = Path(os.environ.get("MEGATRON") or Path(tempfile.gettempdir()) / "megatron")
_DEADLINE_SECONDS, _AT_ONCE, _AT_ONCE_ON_TWO = 150, 5, 6
_NO_ROOM = re.compile("out of memory|NCCL error|ncclUnhandled")  # other processes had the memory
STEPS, WARMUP = 6, 2
LAYERS, HIDDEN, HEADS, VOCABULARY, BATCH = 4, 256, 4, 512, 2


class Case(NamedTuple):
    """One comparison.

    Attributes:
        impl: "local", "transformer_engine", "full_iteration" or "none".
        layers: "te" for the layers of Transformer Engine, "torch" for those of Megatron-Core itself, "hybrid" for a
            HybridModel of attention and experts, "engine" for Transformer Engine without Megatron.
        recipe: FP8 recipe, or "" for bf16 ("fp32" for fp32).
        change: What is changed in the release before it runs, a key of `CHANGES`; or how experts are run, a key of
            `EXPERTS`; "default-stream" builds the model there; with "engine", "order" runs both forwards first and
            "weights-cached" quantizes weights once a step.
        expected: "same" as without graphs to the last bit, "differs", "no graphs", or what the error says.
    """

    core: str
    impl: str
    layers: str = "te"
    recipe: str = ""
    modules: str = ""
    tensor: int = 1
    pipeline: int = 1
    experts: int = 0
    sequence: int = 128
    change: str = ""
    expected: str = "same"

    @property
    def name(self) -> str:
        """Return the words that choose the case."""
        sizes = [f"{word}{size}" for word, size in (("tp", self.tensor), ("pp", self.pipeline)) if size > 1]
        sizes += [f"sequence{self.sequence}"] if self.sequence % 128 else []
        words = [self.core, self.impl, self.layers, self.recipe or "bf16", *self.modules.split(), *sizes, self.change]
        return " ".join(word for word in [*words, "moe" if self.experts else ""] if word)

    @property
    def gpus(self) -> int:
        """Return how many GPUs it needs."""
        return self.tensor * self.pipeline

    @property
    def without_graphs(self) -> Case:
        """Return the training that this one is compared with."""
        change = self.change if self.layers == "engine" or self.change in ("no-engine", *EXPERTS) else ""
        return self._replace(impl="none", modules="", change=change, expected="same")


def _cases() -> Iterator[Case]:
    for core in ("0.19.2", "0.16.1"):
        local = _LOCAL[core]
        for impl in ("local", "transformer_engine", "full_iteration"):
            expected = local["te"] if impl == "local" else "same"
            for recipe in ("", "delayed", "tensorwise", "blockwise"):
                yield Case(core, impl, recipe=recipe, expected=expected)
            yield Case(core, impl, tensor=2, expected=expected)
            yield Case(core, impl, pipeline=2, expected=expected)
            yield Case(core, impl, sequence=64, expected="illegal memory access" if impl == "full_iteration" else "differs")
        for modules in ("attn", "mlp", "attn mlp"):
            yield Case(core, "transformer_engine", modules=modules)
        yield Case(core, "local", modules="attn", expected=local["te"])
        yield from _expert_cases(core)
        yield Case(core, "transformer_engine", change="default-stream", expected="legacy stream")
        yield Case(core, "full_iteration", "torch", "fp32")
        on_default = "legacy stream" if core == "0.19.2" else "same"
        yield Case(core, "full_iteration", "torch", "fp32", change="default-stream", expected=on_default)
    for core, local in _LOCAL.items():
        yield Case(core, "local", "torch", "fp32", expected=local["torch"])
        yield Case(core, "local", "torch", "fp32", change="inputs-kept")
        yield Case(core, "local", "torch", "fp32", change="no-weak-references", expected=local["te"])
        yield Case(core, "local", "torch", "fp32", change="no-engine", expected=local["te"])
    yield Case("0.19.2", "local", "torch", "fp32", change="python-norm")
    yield Case("0.18.2", "local")
    yield Case("0.17.1", "local", expected="differs")
    yield Case("0.16.1", "local", change="inputs-kept")
    for recipe in ("", "delayed", "tensorwise", "blockwise"):
        yield Case("0.19.2", "transformer_engine", "engine", recipe)
        yield Case("0.19.2", "transformer_engine", "engine", recipe, change="order")
        if recipe:
            yield Case("0.19.2", "transformer_engine", "engine", recipe, change="weights-cached")


def _expert_cases(core: str) -> Iterator[Case]:
    """Yield cases with layers of experts; of GPTModel, `local` captures all of a layer that has attention, or nothing."""
    modules = "attn moe_router moe_preprocess"
    masked, waits = "not permitted when stream is capturing", "event last recorded in a capturing stream"
    selects = core == "0.16.1"  # its permutation calls masked_select where it is not fused
    engine = Case(core, "transformer_engine", modules=modules, experts=4)
    local = engine._replace(impl="local")
    yield engine._replace(expected=masked if selects else "same")
    yield engine._replace(change="fused-permutation")
    yield engine._replace(change="drop-and-pad")
    yield engine._replace(modules="attn moe_router")
    yield local._replace(expected=masked if selects else waits)
    yield local._replace(change="fused-permutation", expected=waits)
    yield local._replace(change="drop-and-pad", expected=_LOCAL[core]["te"])
    yield local._replace(modules="moe_router moe_preprocess", expected="no graphs")
    if core == "0.19.2":
        hybrid, outside = local._replace(layers="hybrid"), "index out of bounds"
        yield hybrid._replace(expected=outside)
        yield hybrid._replace(modules="moe_router moe_preprocess", expected=outside)
        yield hybrid._replace(change="fused-permutation")
        yield hybrid._replace(change="drop-and-pad", expected="differs")
        yield engine._replace(layers="hybrid")


# What comes of local graphs by the kind of layer. 0.16 and 0.17 return the input of the first layer to a pool of buffers while
# its backward still needs it; 0.19 frees an input unless Python code saved it for the backward: norms of torch do so in C++.
_LOCAL = {
    "0.19.2": {"torch": "differs", "te": "same"},
    "0.18.2": {"torch": "same", "te": "same"},
    "0.17.1": {"torch": "differs", "te": "differs"},
    "0.16.1": {"torch": "differs", "te": "differs"},
}
CASES = list(_cases())


# The run, one process a training -------------------------------------------------------------------------------------


def run(words: list[str]) -> None:
    """Train the cases whose name has all words, several at once; print a row each when both its trainings have ended."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    import on_gpu
    import torch

    chosen = [case for case in CASES if set(words) <= set(case.name.split()) and case.gpus <= torch.cuda.device_count()]
    command = f"python benchmarks/megatron_graphs.py run {' '.join(words)}".strip()
    versions = {"transformer_engine": metadata.version("transformer-engine"), "cudnn": torch.backends.cudnn.version()}
    print(json.dumps({**on_gpu.machine(command), **versions}), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        trainings = dict.fromkeys(training for case in chosen for training in (case.without_graphs, case))
        files = {training: Path(folder) / f"{place}.pt" for place, training in enumerate(trainings)}
        failed: dict[Case, str] = {}

        def start(job: dict[str, Any], _: Path) -> list[str]:
            training: Case = job["training"]
            path = os.pathsep.join([str(MEGATRON / f"core-{training.core}"), os.environ.get("PYTHONPATH", "")])
            words = [str(Path(__file__).resolve()), "train", json.dumps(training), str(files[training])]
            visible = "0,1" if training.gpus > 1 else str(job["gpu"])
            return [
                "env",
                f"PYTHONPATH={path}",
                f"CUDA_VISIBLE_DEVICES={visible}",
                *on_gpu.python(f"gpus={training.gpus}", *words),
            ]

        waiting = list(chosen)
        ended: set[Case] = set()
        for count, at_once in ((1, _AT_ONCE * torch.cuda.device_count()), (2, _AT_ONCE_ON_TWO)):
            able = [training for training in trainings if training.gpus == count]
            jobs = [{"training": training, "gpu": place % torch.cuda.device_count()} for place, training in enumerate(able)]
            for end in on_gpu.each(jobs, start, _DEADLINE_SECONDS, at_once):
                training = end.job["training"]
                ended.add(training)
                if end.code != 0:
                    failed[training] = f"exit code {end.code}: {_error(end.output)}"
                for case in [case for case in waiting if {case, case.without_graphs} <= ended]:
                    waiting.remove(case)
                    _print_row(case, failed, files)


def _print_row(case: Case, failed: dict[Case, str], files: dict[Case, Path]) -> None:
    error = failed.get(case.without_graphs) or failed.get(case)
    row = {"error": error} if error else _compared(_loaded(files[case.without_graphs]), _loaded(files[case]))
    print(json.dumps({"case": case.name, **row}), flush=True)
    sys.stderr.write(f"{case.name}: {_said(row)}\n")


def _error(output: str) -> str:
    """Return the first exception or failed assertion that a training printed, with the frame that raised it."""
    found = [re.sub(r"^\[rank\d\]:|^.*(?=Assertion `)", "", line).strip() for line in output.splitlines()]
    lines = [line for line in found if line]
    raised = re.compile(r"[\w.]*(Error|Exception): |Assertion `")
    place = next((place for place, line in enumerate(lines) if raised.match(line)), len(lines) - 1)
    frame = next((line for line in reversed(lines[:place]) if line.startswith("File ")), "")
    return f"{lines[place] if lines else 'no output'} ({re.sub(r'/.*/(?=[^/]+/[^/]+/[^/]+$)', '', frame)})"[:400]


def _said(row: dict[str, Any]) -> str:
    if "error" in row:
        return str(row["error"])
    return (
        f"loss {row['loss_difference']:.2g}, gradients of {row['parameters_that_differ']} of {row['parameters']} differ, "
        f"{row['graph_launches']} graph launches in a step"
    )


# One training, on the GPU --------------------------------------------------------------------------------------------


def _train(case: Case, file: str) -> None:
    """Train in this process, with graphs unless `impl` is none; each rank writes what it has seen."""
    os.environ.setdefault("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "0")  # attention that repeats itself
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    import torch
    import torch.distributed as dist

    gpu = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    torch.cuda.set_device(gpu)
    store = None if "RANK" in os.environ else dist.HashStore()
    rank, world = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
    dist.init_process_group("nccl", store=store, rank=rank, world_size=world, device_id=gpu)
    trained = _engine_alone(case) if case.layers == "engine" else _megatron(case)
    every: list[Any] = [None] * world
    dist.all_gather_object(every, tuple(trained))
    if rank == 0:
        torch.save(_merged([Trained(*one) for one in every])._asdict(), file)
    dist.barrier()
    os._exit(0)  # graphs that hold collectives may hang in the clean-up; it has its own entry


def _loaded(file: Path) -> Trained:
    import torch

    return Trained(**torch.load(file, weights_only=True))


def _merged(ranks: list[Trained]) -> Trained:
    """Join what the ranks have seen: losses of the last stage, gradients of all."""
    steps = range(len(ranks[0].gradients))
    gradients = [
        {f"{rank} {name}": value for rank, one in enumerate(ranks) for name, value in one.gradients[step].items()}
        for step in steps
    ]
    return Trained(ranks[-1].losses, gradients, ranks[0].graph_launches)


class Trained(NamedTuple):
    """Losses and gradients of each step, and how often one more step launched a graph."""

    losses: list[float]
    gradients: list[dict[str, Tensor]]
    graph_launches: int


def _compared(eager: Trained, graph: Trained) -> dict[str, Any]:
    """Return how far losses and the gradients of the first step that differs are apart."""
    first = None
    differ: list[str] = []
    for step, (one, two) in enumerate(zip(eager.gradients, graph.gradients, strict=True)):
        apart = {name: _apart(one[name], two[name]) for name in one}
        differ = [name for name, difference in apart.items() if difference > 0]
        if differ:
            worst = max(apart, key=lambda name: apart[name])
            first = {"step": step, "names": differ[:6], "worst": worst, "of_its_largest": round(apart[worst], 6)}
            break
    return {
        "loss_difference": max((abs(a - b) for a, b in zip(eager.losses, graph.losses, strict=True)), default=0.0),
        "losses": [eager.losses[-1], graph.losses[-1]] if eager.losses else [],
        "parameters": len(eager.gradients[0]),
        "parameters_that_differ": len(differ),
        "first": first,
        "graph_launches": graph.graph_launches,
    }


def _apart(one: Tensor, two: Tensor) -> float:
    """Return the largest difference of two gradients, as a share of the largest value of the first."""
    if not bool(one.isfinite().all() and two.isfinite().all()):
        return float("inf")
    return float((one - two).abs().max() / one.abs().max().clamp_min(1e-30))


def _launches(step: Callable[[], object]) -> int:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        step()
    return sum(event.count for event in seen.key_averages() if event.key == "cudaGraphLaunch")


# Megatron-Core -------------------------------------------------------------------------------------------------------


def _megatron(case: Case) -> Trained:
    """Train with Megatron-Core, changed as the case says."""
    import torch

    if case.change in CHANGES:
        CHANGES[case.change]()
    import torch.distributed as dist
    from megatron.core import parallel_state
    from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator

    torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    parallel_state.initialize_model_parallel(case.tensor, case.pipeline, create_gloo_process_groups=False)
    init_num_microbatches_calculator(dist.get_rank(), None, BATCH * _microbatches(case), BATCH, 1)
    return _trained(case)


def _microbatches(case: Case) -> int:
    return 4 if case.pipeline > 1 else 2


def _config(case: Case) -> Any:
    import torch
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.transformer import TransformerConfig

    new = tuple(map(int, case.core.split("."))) >= (0, 18)
    impl = case.impl
    scope = case.modules.split()
    if impl == "full_iteration" and not new:
        impl, scope = "local", ["full_iteration"]
    low = {"fp8": "hybrid", "fp8_recipe": case.recipe} if case.recipe not in ("", "fp32") else {}
    half = {"bf16": True, "params_dtype": torch.bfloat16} if case.recipe != "fp32" else {}
    wide = {"pipeline_dtype": torch.bfloat16 if half else torch.float32, "batch_p2p_comm": False}
    experts = {"num_moe_experts": case.experts, "moe_router_topk": 2, "moe_token_dispatcher_type": "alltoall"}
    experts |= {"add_bias_linear": False, "moe_grouped_gemm": case.layers == "hybrid", **EXPERTS.get(case.change, {})}
    return TransformerConfig(
        num_layers=LAYERS,
        hidden_size=HIDDEN,
        num_attention_heads=HEADS,
        attention_dropout=0.0,
        hidden_dropout=0.0,
        tensor_model_parallel_size=case.tensor,
        pipeline_model_parallel_size=case.pipeline,
        finalize_model_grads_func=finalize_model_grads,
        cuda_graph_impl=impl,
        cuda_graph_warmup_steps=WARMUP,
        **{"cuda_graph_modules" if new else "cuda_graph_scope": scope},
        **half,
        **low,
        **(wide if case.pipeline > 1 else {}),
        **(experts if case.experts else {}),
    )


def _model(case: Case) -> nn.Module:
    from megatron.core import parallel_state
    from megatron.core.models.gpt import GPTModel, gpt_layer_specs

    config = _config(case)
    first, last = parallel_state.is_pipeline_first_stage(), parallel_state.is_pipeline_last_stage()
    if case.layers == "hybrid":
        from megatron.core.models.hybrid.hybrid_layer_specs import hybrid_stack_spec
        from megatron.core.models.hybrid.hybrid_model import HybridModel

        model = HybridModel(config, hybrid_stack_spec, VOCABULARY, case.sequence, hybrid_layer_pattern="*E*E").cuda()
        return _wrapped(case, config, model)
    made = {"te": "get_gpt_layer_with_transformer_engine_spec", "torch": "get_gpt_layer_local_spec"}[case.layers]
    spec = getattr(gpt_layer_specs, made)(num_experts=case.experts or None)
    model = GPTModel(config, spec, VOCABULARY, case.sequence, pre_process=first, post_process=last).cuda()
    return _wrapped(case, config, model)


def _wrapped(case: Case, config: Any, model: nn.Module) -> nn.Module:
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    from megatron.core.transformer.module import Float16Module

    wrapped = model if case.recipe == "fp32" else Float16Module(config, model)
    return DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=True), wrapped)


def _trained(case: Case) -> Trained:
    """Train from the same seed; make the graphs as a training loop of Megatron does."""
    import torch
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    from megatron.core.transformer.cuda_graphs import TECudaGraphHelper

    torch.manual_seed(0)
    model_parallel_cuda_manual_seed(1, te_rng_tracker=case.layers != "torch", use_cudagraphable_rng=case.layers == "torch")
    torch.cuda.synchronize()
    aside = case.impl in ("full_iteration", "transformer_engine") and case.change != "default-stream"
    with torch.cuda.stream(_capture_stream(case) if aside else None):
        model = _model(case)
    torch.cuda.synchronize()
    half = {} if case.recipe == "fp32" else {"bf16": True, "params_dtype": torch.bfloat16}
    optimizer = get_megatron_optimizer(
        OptimizerConfig(lr=1e-3, weight_decay=0.1, **half), [model], use_gloo_process_groups=False
    )
    forward_backward = get_forward_backward_func()
    if case.impl == "full_iteration":
        from megatron.core.full_cuda_graph import FullCudaGraphWrapper

        forward_backward = FullCudaGraphWrapper(forward_backward, cuda_graph_warmup_steps=WARMUP)
    helper = None
    if case.impl == "transformer_engine":
        config = model.config
        helper = TECudaGraphHelper(
            model=[model], config=config, seq_length=case.sequence, micro_batch_size=BATCH, optimizers=[optimizer]
        )
    microbatches = _microbatches(case)
    random = torch.Generator().manual_seed(3)
    text = torch.randint(VOCABULARY, (STEPS + 1, microbatches, BATCH, case.sequence + 1), generator=random)
    losses: list[float] = []
    gradients: list[dict[str, Tensor]] = []

    def step(number: int) -> None:
        if helper is not None and number == WARMUP:
            helper.create_cudagraphs()
        model.zero_grad_buffer()
        optimizer.zero_grad()
        found = forward_backward(
            forward_step_func=_forward_step,
            data_iterator=iter([{"text": text[number, one].cuda()} for one in range(microbatches)]),
            model=[model],
            num_microbatches=microbatches,
            seq_length=case.sequence,
            micro_batch_size=BATCH,
            forward_only=False,
        )
        torch.cuda.synchronize()
        gradients.append({name: weight.main_grad.float().cpu() for name, weight in model.named_parameters()})
        if found:
            losses.append(float(torch.stack(list(found)).mean()))
        optimizer.step()

    for number in range(STEPS):
        step(number)
    return Trained(losses[:], gradients[:], _launches(lambda: step(STEPS)) if case.impl != "none" else 0)


def _capture_stream(case: Case) -> Any:
    """Return a stream to build the model of a captured iteration on: its gradients must not belong to the default stream."""
    import torch

    if case.core.startswith("0.16"):
        return torch.cuda.Stream()
    from megatron.core.full_cuda_graph import get_shared_capture_stream

    return get_shared_capture_stream()


def _forward_step(data: Iterator[dict[str, Tensor]], model: nn.Module) -> tuple[Tensor, Callable[..., object]]:
    import torch

    tokens = next(data)["text"]
    inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    positions = torch.arange(inputs.shape[1], device=tokens.device).expand_as(inputs)

    def loss_of(output: Tensor) -> tuple[Tensor, Tensor]:
        loss = output.float().mean()
        return loss, loss.detach().clone()

    return model(inputs, positions, None, labels=labels), loss_of


def _no_engine() -> None:
    """Take Transformer Engine away, as where it is not installed."""
    sys.modules["transformer_engine"] = None  # type: ignore[assignment]


def _no_weak_references() -> None:
    """Let graphs own their buffers until they are deleted."""
    from megatron.core.transformer import cuda_graphs

    cuda_graphs.HAVE_TE_GRAPHS = False


def _inputs_kept() -> None:
    """Keep the inputs of a graph until its backward was captured."""
    from megatron.core.transformer import cuda_graphs

    if hasattr(cuda_graphs, "TensorReusePool"):
        cuda_graphs.TensorReusePool.insert = lambda _pool, _tensor: None
        return
    runner = cuda_graphs._CudaGraphRunner  # noqa: SLF001  # its record decides what is kept
    tag = cuda_graphs._tag_cudagraph_buffer_saved_for_backward  # noqa: SLF001
    record = runner.apply_cudagraph_record_metadata

    def keeping(self: Any, args: Any, kwargs: Any, outputs: Any) -> None:
        record(self, args, kwargs, outputs)
        for tensor in self.get_tensors(args, kwargs):
            tag(tensor)

    runner.apply_cudagraph_record_metadata = keeping


def _python_norm() -> None:
    """Let LayerNorm save its input through Python, where Megatron-Core sees it."""
    import torch

    class Norm(torch.autograd.Function):  # type: ignore[misc,unused-ignore]  # untyped where torch is not installed
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
            y, mean, deviation = torch.native_layer_norm(x, x.shape[-1:], weight, bias, eps)
            ctx.save_for_backward(x, weight, bias, mean, deviation)
            return y

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
            x, weight, bias, mean, deviation = ctx.saved_tensors
            parts = torch.ops.aten.native_layer_norm_backward(
                grad.contiguous(), x, x.shape[-1:], mean, deviation, weight, bias, [True, True, True]
            )
            return (*parts, None)

    torch.nn.LayerNorm.forward = lambda self, x: Norm.apply(x, self.weight, self.bias, self.eps)


CHANGES = {
    "no-engine": _no_engine,
    "no-weak-references": _no_weak_references,
    "inputs-kept": _inputs_kept,
    "python-norm": _python_norm,
}


EXPERTS: dict[str, dict[str, Any]] = {
    "fused-permutation": {"moe_permute_fusion": True},
    "drop-and-pad": {"moe_expert_capacity_factor": 2.0, "moe_pad_expert_input_to_capacity": True},
}


# Transformer Engine alone --------------------------------------------------------------------------------------------


def _engine_alone(case: Case) -> Trained:
    """Train two layers over two microbatches: one after the other, or both forwards first ("order")."""
    import torch
    import transformer_engine.pytorch as te
    from transformer_engine.common import recipe as recipes

    recipe = {
        "": None,
        "delayed": recipes.DelayedScaling(),
        "tensorwise": recipes.Float8CurrentScaling(),
        "blockwise": recipes.Float8BlockScaling(),
    }[case.recipe]
    cached, interleaved = case.change == "weights-cached", case.change == "order"
    torch.manual_seed(0)
    layers = [
        te.TransformerLayer(
            HIDDEN,
            4 * HIDDEN,
            HEADS,
            hidden_dropout=0.0,
            attention_dropout=0.0,
            params_dtype=torch.bfloat16,
            fuse_qkv_params=True,
        )
        for _ in range(2)
    ]
    weights = [weight for layer in layers for weight in layer.parameters()]
    random = torch.Generator().manual_seed(3)
    data = torch.randn(STEPS + 1, 2, case.sequence, BATCH, HIDDEN, generator=random).bfloat16().cuda()
    functions: list[Any] = list(layers)
    graphed = case.impl != "none"
    if graphed:
        sample = [(torch.zeros_like(data[0, 0]).requires_grad_(),) for _ in range(4 if interleaved else 2)]
        options: dict[str, Any] = {"enabled": recipe is not None, "recipe": recipe, "cache_quantized_params": cached}
        if interleaved:
            options |= {"_order": [1, 1, -1, -1], "_num_layers_per_chunk": [2]}
        functions = list(te.make_graphed_callables(tuple(layers), tuple(sample), **options))
    for weight in weights:
        weight.grad = None
    losses: list[float] = []
    gradients: list[dict[str, Tensor]] = []

    def forward(x: Tensor, microbatch: int) -> Tensor:
        first = {"is_first_microbatch": microbatch == 0} if cached else {}
        these = functions[2 * microbatch :][:2] if graphed and interleaved else functions[:2]
        with te.autocast(enabled=recipe is not None, recipe=recipe):
            for function in these:
                x = function(x, **first)
        return x

    def step(number: int) -> None:
        kept: list[Tensor] = []
        for microbatch in range(2):
            loss = forward(data[number, microbatch].clone().requires_grad_(), microbatch).float().square().mean()
            kept.append(loss)
            if not interleaved:
                loss.backward()
        if interleaved:
            for loss in kept:
                loss.backward()
        torch.cuda.synchronize()
        losses.append(sum(map(float, kept)))
        gradients.append({str(place): weight.grad.float().cpu() for place, weight in enumerate(weights)})
        with torch.no_grad():
            for weight in weights:
                weight.sub_(0.01 * weight.grad)
                weight.grad = None

    for number in range(STEPS):
        step(number)
    return Trained(losses[:], gradients[:], _launches(lambda: step(STEPS)) if case.impl != "none" else 0)


# The evidence --------------------------------------------------------------------------------------------------------


def keep(files: list[str]) -> None:
    """Add the rows of runs; a case keeps its newest, and one for which the GPU had no room keeps none of that run."""
    runs = json.loads(EVIDENCE.read_text(encoding="utf-8")) if EVIDENCE.exists() else []
    for file in files:
        machine, *rows = map(json.loads, Path(file).read_text(encoding="utf-8").splitlines())
        runs.append({**machine, "rows": [row for row in rows if not _NO_ROOM.search(row.get("error", ""))]})
    known, taken = {case.name for case in CASES}, set()
    for one in reversed(runs):
        one["rows"] = [row for row in one["rows"] if row["case"] in known and row["case"] not in taken]
        taken |= {row["case"] for row in one["rows"]}
    EVIDENCE.write_text(json.dumps([one for one in runs if one["rows"]], indent=1) + "\n", encoding="utf-8")


def as_expected(case: Case, row: dict[str, Any]) -> bool:
    """Return whether a case failed, differed or agreed as it says; graphs that were never launched agree with nothing."""
    if "error" in row:
        return case.expected not in ("same", "differs") and case.expected in row["error"]
    if not row["graph_launches"]:
        return case.expected == "no graphs"
    return case.expected == ("differs" if row["parameters_that_differ"] else "same")


def show(*, check: bool) -> int:
    """Print a line for each case; with `check` return 1 if a result is not the one that is expected."""
    runs = json.loads(EVIDENCE.read_text(encoding="utf-8")) if EVIDENCE.exists() else []
    rows = {row["case"]: row for one in runs for row in one["rows"]}
    for case in CASES:
        print(f"{case.name}: {_said(rows[case.name]) if case.name in rows else 'not run'}")
    wrong = [case.name for case in CASES if case.name in rows and not as_expected(case, rows[case.name])]
    print(f"{len(rows)} of {len(CASES)} cases run; not as expected: {', '.join(wrong) or 'none'}")
    return int(check and bool(wrong))


def main() -> int:
    """Run `run`, `keep`, or in a child process `train`; or print the evidence."""
    match sys.argv[1:]:
        case ["run", *words]:
            run(words)
        case ["keep", *files] if files:
            keep(files)
        case ["train", text, file]:
            _train(Case(*json.loads(text)), file)
        case [] | ["--check"]:
            return show(check="--check" in sys.argv)
        case _:
            sys.exit(__doc__)
    return 0


if __name__ == "__main__":
    sys.exit(main())
