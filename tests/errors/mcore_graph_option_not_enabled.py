"""mcore-graph-option-not-enabled: the helper of Transformer Engine's graphs is made for a config without them."""

# needs: transformer-engine, megatron-core==0.19.2
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


def _config(modules: list[str], implementation: str = "transformer_engine") -> TransformerConfig:
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    init_num_microbatches_calculator(0, None, 2, 2, 1)
    return TransformerConfig(
        num_layers=2,
        hidden_size=256,
        num_attention_heads=4,
        bf16=True,
        params_dtype=torch.bfloat16,
        cuda_graph_impl=implementation,
        cuda_graph_modules=modules,
    )


def _model(config: TransformerConfig) -> nn.Module:
    gpt = GPTModel(config, get_gpt_layer_with_transformer_engine_spec(), vocab_size=128, max_sequence_length=128)
    return DistributedDataParallel(config, DistributedDataParallelConfig(), Float16Module(config, gpt))


def fails() -> None:
    """An own loop always makes the helper."""
    config = _config([], implementation="none")
    TECudaGraphHelper(model=[_model(config)], config=config, seq_length=128, micro_batch_size=2)


def works() -> None:
    """The config says so before the model is built."""
    config = _config(["attn"])
    helper = TECudaGraphHelper(model=[_model(config)], config=config, seq_length=128, micro_batch_size=2)
    assert len(helper.flattened_callables) == 2
