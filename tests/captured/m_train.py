"""A small GPT trained with Megatron-Core, its random states in Megatron's tracker, built on another stream than the steps."""

import argparse

import torch
import torch.distributed as dist
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec, get_gpt_layer_with_transformer_engine_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from megatron.core.transformer.module import Float16Module

SEQUENCE, VOCABULARY, BATCH, MICROBATCHES = 128, 512, 2, 2


def build(layers, dropout):
    config = TransformerConfig(
        num_layers=2,
        hidden_size=256,
        num_attention_heads=4,
        bf16=True,
        params_dtype=torch.bfloat16,
        attention_dropout=dropout,
        hidden_dropout=dropout,
        finalize_model_grads_func=finalize_model_grads,
    )
    spec = get_gpt_layer_with_transformer_engine_spec() if layers == "te" else get_gpt_layer_local_spec()
    model = Float16Module(config, GPTModel(config, spec, VOCABULARY, SEQUENCE).cuda())
    return DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=True), model)


def forward_step(data, model):
    tokens = next(data)
    positions = torch.arange(SEQUENCE, device="cuda").expand(BATCH, SEQUENCE)

    def loss_of(output):
        loss = output.float().mean()
        return loss, loss.detach().clone()

    return model(tokens[:, :-1].contiguous(), positions, None, labels=tokens[:, 1:].contiguous()), loss_of


def forward_backward(model, tokens):
    model.zero_grad_buffer()
    found = get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=iter(tokens),
        model=[model],
        num_microbatches=MICROBATCHES,
        seq_length=SEQUENCE,
        micro_batch_size=BATCH,
        forward_only=False,
    )
    return torch.stack(found).mean()


def checked_step(model, tokens):
    loss = forward_backward(model, tokens)
    if not torch.isfinite(loss).item():
        raise FloatingPointError
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--layers", default="torch", choices=["torch", "te"])
    parser.add_argument("--tracker", default="graphs", choices=["graphs", "te", "plain"])
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--checked", action="store_true")
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device("cuda", 0))
    parallel_state.initialize_model_parallel(create_gloo_process_groups=False)
    model_parallel_cuda_manual_seed(1, te_rng_tracker=args.tracker == "te", use_cudagraphable_rng=args.tracker == "graphs")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        model = build(args.layers, args.dropout)
    torch.cuda.current_stream().wait_stream(side)
    settings = OptimizerConfig(lr=1e-3, bf16=True, params_dtype=torch.bfloat16)
    optimizer = get_megatron_optimizer(settings, [model], use_gloo_process_groups=False)
    step = checked_step if args.checked else forward_backward
    for _ in range(args.steps):
        tokens = list(torch.randint(VOCABULARY, (MICROBATCHES, BATCH, SEQUENCE + 1), device="cuda"))
        optimizer.zero_grad()
        loss = step(model, tokens)
        optimizer.step()
    print("loss", float(loss))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
