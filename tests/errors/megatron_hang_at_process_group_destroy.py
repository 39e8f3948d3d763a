"""megatron-hang-at-process-group-destroy: the graph of a captured iteration is alive when its groups are destroyed."""

# needs: gpus=2, transformer-engine, megatron-core==0.19.2
import gc
import os
import threading
from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.full_cuda_graph import FullCudaGraphWrapper, get_shared_capture_stream
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_with_transformer_engine_spec
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module
from torch import nn

Data = Iterator[dict[str, torch.Tensor]]


SEQUENCE = 128


def _model() -> nn.Module:
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    parallel_state.initialize_model_parallel(2, create_gloo_process_groups=False)
    model_parallel_cuda_manual_seed(1, te_rng_tracker=True)
    config = TransformerConfig(
        num_layers=4,
        hidden_size=256,
        num_attention_heads=4,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        tensor_model_parallel_size=2,
        bf16=True,
        params_dtype=torch.bfloat16,
        finalize_model_grads_func=finalize_model_grads,
        cuda_graph_impl="full_iteration",
        cuda_graph_modules=[],
    )
    torch.cuda.synchronize()
    with torch.cuda.stream(get_shared_capture_stream()):
        gpt = GPTModel(config, get_gpt_layer_with_transformer_engine_spec(), 512, SEQUENCE).cuda()
        buffers = DistributedDataParallelConfig(grad_reduce_in_fp32=True)
        model = DistributedDataParallel(config, buffers, Float16Module(config, gpt))
    torch.cuda.synchronize()
    return model


def _forward_step(data: Data, model: nn.Module) -> tuple[torch.Tensor, Callable[[torch.Tensor], object]]:
    tokens = next(data)["text"]
    inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    positions = torch.arange(inputs.shape[1], device="cuda").expand_as(inputs)
    return model(inputs, positions, None, labels=labels), _loss


def _loss(output: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    loss = output.float().mean()
    return loss, loss.detach().clone()


def _trained() -> FullCudaGraphWrapper:
    model = _model()
    forward_backward = FullCudaGraphWrapper(get_forward_backward_func(), cuda_graph_warmup_steps=2)
    for _ in range(6):
        model.zero_grad_buffer()
        losses = forward_backward(
            forward_step_func=_forward_step,
            data_iterator=iter([{"text": torch.randint(512, (2, SEQUENCE + 1), device="cuda")} for _ in range(2)]),
            model=[model],
            num_microbatches=2,
            seq_length=SEQUENCE,
            micro_batch_size=2,
            forward_only=False,
        )
        torch.cuda.synchronize()
        assert torch.isfinite(torch.stack(losses)).all()
    return forward_backward


def fails() -> None:
    """After 20 seconds the call has not returned."""
    kept = _trained()
    closing = threading.Thread(target=dist.destroy_process_group, daemon=True)
    closing.start()
    closing.join(20)
    assert closing.is_alive()
    assert kept is not None
    os._exit(0)


def works() -> None:
    """The graph first, the groups after it."""
    kept = _trained()
    kept.reset_cuda_graph()
    gc.collect()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    assert not dist.is_initialized()
