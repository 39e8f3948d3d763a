"""mcore-inference-graph-settings: no graphs at all are asked for as a number of graphs."""

# needs: megatron-core==0.19.2
import sys
from argparse import Namespace

from megatron.training.arguments import parse_args, validate_args


def _arguments(*words: str) -> Namespace:
    model = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32"
    train = "--micro-batch-size 1 --train-iters 10 --bf16 --cuda-graph-impl local"
    sys.argv = ["run_inference.py", *model.split(), *train.split(), *words]
    return validate_args(parse_args())


def fails() -> None:
    """0 is neither a number of graphs nor "choose yourself"."""
    _arguments("--inference-dynamic-batching-num-cuda-graphs", "0")


def works() -> None:
    """-1 leaves the number to the engine."""
    args = _arguments("--inference-dynamic-batching-num-cuda-graphs", "-1")
    assert args.inference_dynamic_batching_num_cuda_graphs == -1
