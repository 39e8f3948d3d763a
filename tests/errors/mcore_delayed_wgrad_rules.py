"""mcore-delayed-wgrad-rules: late weight gradients in a graph, and biases whose gradients have no fixed address."""

# needs: transformer-engine, megatron-core==0.19.2
import sys
from argparse import Namespace

from megatron.training.arguments import parse_args, validate_args


def _arguments(*words: str) -> Namespace:
    model = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32"
    experts = "--num-experts 4 --moe-token-dispatcher-type alltoall --overlap-moe-expert-parallel-comm"
    train = "--micro-batch-size 1 --train-iters 10 --bf16 --overlap-grad-reduce --delay-wgrad-compute"
    graphs = "--cuda-graph-impl transformer_engine --cuda-graph-modules attn"
    sys.argv = ["pretrain_gpt.py", *model.split(), *experts.split(), *train.split(), *graphs.split(), *words]
    return validate_args(parse_args())


def fails() -> None:
    """Linear layers have a bias by default."""
    _arguments()


def works() -> None:
    """No layer has one."""
    assert _arguments("--disable-bias-linear").delay_wgrad_compute
