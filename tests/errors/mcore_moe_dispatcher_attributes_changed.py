"""mcore-moe-dispatcher-attributes-changed: the dispatcher holds a tensor in one capture that it does not hold in the next."""

# needs: transformer-engine, megatron-core==0.19.2
import itertools

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec
from megatron.core.num_microbatches_calculator import init_num_microbatches_calculator
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.cuda_graphs import TECudaGraphHelper
from megatron.core.transformer.module import Float16Module
from torch import nn


def _config(modules: list[str]) -> TransformerConfig:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    init_num_microbatches_calculator(0, None, 2, 2, 1)
    return TransformerConfig(
        num_layers=2,
        hidden_size=256,
        num_attention_heads=4,
        num_moe_experts=4,
        moe_token_dispatcher_type="alltoall",
        add_bias_linear=False,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        bf16=True,
        params_dtype=torch.bfloat16,
        cuda_graph_impl="transformer_engine",
        cuda_graph_modules=modules,
    )


def _model(config: TransformerConfig) -> nn.Module:
    spec = get_gpt_layer_with_transformer_engine_spec(num_experts=4, moe_grouped_gemm=False)
    gpt = GPTModel(config, spec, vocab_size=128, max_sequence_length=128).cuda()
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):  # as the training script does: no node of a parameter is on the default stream
        model = DistributedDataParallel(config, DistributedDataParallelConfig(), Float16Module(config, gpt))
    torch.cuda.synchronize()
    return model


def _step(model: nn.Module) -> torch.Tensor:
    tokens = torch.randint(128, (2, 128), device="cuda")
    positions = torch.arange(128, device="cuda").expand(2, 128)
    loss: torch.Tensor = model(tokens, positions, None, labels=tokens).mean()
    loss.backward()
    return loss


def _graphs(config: TransformerConfig, model: nn.Module) -> None:
    helper = TECudaGraphHelper(model=[model], config=config, seq_length=128, micro_batch_size=2)
    helper.create_cudagraphs()


def _extend(model: nn.Module, constant: bool) -> None:
    """Let the dispatchers hold one more tensor, as a dispatcher of one's own may: in every call, or in every other."""
    for dispatcher in [module.token_dispatcher for module in model.modules() if hasattr(module, "token_dispatcher")]:
        dispatcher.cudagraph_attrs = [*dispatcher.cudagraph_attrs, "weights"]
        preprocess, calls = dispatcher.dispatch_preprocess, itertools.count()

        def dispatch(*args, dispatcher=dispatcher, preprocess=preprocess, calls=calls, **options):  # type: ignore[no-untyped-def]
            dispatcher.weights = torch.ones(4, device="cuda") if constant or next(calls) % 2 == 0 else None
            return preprocess(*args, **options)

        dispatcher.dispatch_preprocess = dispatch


def fails() -> None:
    """A dispatcher of one's own has a tensor in every other call."""
    config = _config(["attn", "moe_router", "moe_preprocess"])
    model = _model(config)
    _extend(model, constant=False)
    _graphs(config, model)


def works() -> None:
    """It has the tensor in every call."""
    config = _config(["attn", "moe_router", "moe_preprocess"])
    model = _model(config)
    _extend(model, constant=True)
    _graphs(config, model)
    assert torch.isfinite(_step(model))
