"""mcore-optimizer-graph-capture-fails: a captured optimizer step compares the gradient norm with a threshold on the host."""

# needs: transformer-engine, megatron-core==0.18.2
import logging

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec
from megatron.core.optimizer import MegatronOptimizer, OptimizerConfig, get_megatron_optimizer
from megatron.core.optimizer.optimizer_cuda_graph import OptimizerCudaGraphWrapper
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module
from torch import nn


def _training(captured: bool) -> tuple[nn.Module, MegatronOptimizer]:
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    config = TransformerConfig(num_layers=2, hidden_size=256, num_attention_heads=4, bf16=True, params_dtype=torch.bfloat16)
    gpt = GPTModel(config, get_gpt_layer_with_transformer_engine_spec(), 512, 128).cuda()
    model = DistributedDataParallel(config, DistributedDataParallelConfig(), Float16Module(config, gpt))
    settings = OptimizerConfig(lr=1e-3, bf16=True, params_dtype=torch.bfloat16, optimizer_cuda_graph=captured)
    return model, get_megatron_optimizer(settings, [model], use_gloo_process_groups=False)


def _train(captured: bool) -> None:
    model, optimizer = _training(captured)
    step = OptimizerCudaGraphWrapper(optimizer.step, cuda_graph_warmup_steps=2) if captured else optimizer.step
    positions = torch.arange(128, device="cuda").expand(2, 128)
    for _ in range(4):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        tokens = torch.randint(512, (2, 128), device="cuda")
        model(tokens, positions, None, labels=tokens).float().mean().backward()
        model.finish_grad_sync()
        updated, norm, _ = step()
        assert updated
        assert float(norm) > 0


def fails() -> None:
    """The whole step of the optimizer becomes a graph."""
    _train(captured=True)


def works() -> None:
    """The optimizer runs without one."""
    _train(captured=False)
