"""mcore-parallelism-refuses-graphs: hybrid context parallelism cuts sequences anew in each step."""

# needs: megatron-core==0.19.2
import sys
from argparse import Namespace

from megatron.training.arguments import parse_args, validate_args


def _arguments(*words: str) -> Namespace:
    model = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32"
    train = "--micro-batch-size 1 --train-iters 10 --bf16 --calculate-per-token-loss --dataloader-type single"
    sys.argv = ["pretrain_gpt.py", *model.split(), *train.split(), "--hybrid-context-parallel", *words]
    return validate_args(parse_args())


def fails() -> None:
    """The old switch for graphs is still on the command line."""
    _arguments("--enable-cuda-graph")


def works() -> None:
    """This kind of parallelism runs without graphs."""
    assert _arguments().cuda_graph_impl == "none"
