"""mcore-rl-graph-flags: graphs are to be used in training, and none are built."""

# needs: megatron-core==0.19.2
import sys
from argparse import Namespace

from megatron.training.arguments import parse_args, validate_args


def _arguments(*words: str) -> Namespace:
    model = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32"
    train = "--micro-batch-size 1 --global-batch-size 1 --train-iters 10 --bf16 --perform-rl-step"
    sys.argv = ["train_rl.py", *model.split(), *train.split(), *words]
    return validate_args(parse_args())


def fails() -> None:
    """The implementation is `none` where nobody sets it."""
    _arguments("--rl-training-cuda-graphs")


def works() -> None:
    """Both are set."""
    args = _arguments("--rl-training-cuda-graphs", "--cuda-graph-impl", "local")
    assert args.cuda_graph_impl == "local"
