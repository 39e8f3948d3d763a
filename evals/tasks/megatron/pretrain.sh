#!/bin/bash
# GPT-MoE 8x1B on one node of eight H100, megatron-core 0.17.1
export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

MODEL=(
    --num-layers 16
    --hidden-size 2048
    --num-attention-heads 16
    --seq-length 4096
    --max-position-embeddings 4096
    --num-experts 8
    --moe-router-topk 2
    --moe-token-dispatcher-type alltoall
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --bf16
)

TRAINING=(
    --micro-batch-size 1
    --global-batch-size 256
    --train-iters 50000
    --lr 3e-4
    --min-lr 3e-5
    --lr-decay-style cosine
    --clip-grad 1.0
    --use-distributed-optimizer
    --overlap-grad-reduce
)

PARALLEL=(
    --tensor-model-parallel-size 2
    --expert-model-parallel-size 4
    --sequence-parallel
)

GRAPHS=(
    --cuda-graph-impl transformer_engine
    --cuda-graph-modules attn moe_preprocess
    --cuda-graph-warmup-steps 3
    --recompute-granularity full
    --recompute-method uniform
    --recompute-num-layers 1
)

torchrun --nproc-per-node 8 pretrain_gpt.py \
    "${MODEL[@]}" "${TRAINING[@]}" "${PARALLEL[@]}" "${GRAPHS[@]}" \
    --transformer-impl transformer_engine
