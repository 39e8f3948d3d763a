"""mcore-microbatch-count-mismatch: the helper gets two model chunks, and there is no pipeline."""

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


def _config(modules: list[str]) -> TransformerConfig:
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
        cuda_graph_impl="transformer_engine",
        cuda_graph_modules=modules,
    )


def _model(config: TransformerConfig) -> nn.Module:
    gpt = GPTModel(config, get_gpt_layer_with_transformer_engine_spec(), vocab_size=128, max_sequence_length=128).cuda()
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


def fails() -> None:
    """Both towers of a model are passed as if they were chunks."""
    config = _config(["attn"])
    helper = TECudaGraphHelper(model=[_model(config), _model(config)], config=config, seq_length=128, micro_batch_size=2)
    helper.create_cudagraphs()


def works() -> None:
    """One chunk, as the schedule runs it."""
    config = _config(["attn"])
    model = _model(config)
    helper = TECudaGraphHelper(model=[model], config=config, seq_length=128, micro_batch_size=2)
    helper.create_cudagraphs()
    assert torch.isfinite(_step(model))
