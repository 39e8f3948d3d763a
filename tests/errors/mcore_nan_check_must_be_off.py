"""mcore-nan-check-must-be-off: the loss is read on the host inside a step that is captured."""

# needs: megatron-core==0.19.2
import sys
from argparse import Namespace

from megatron.training.arguments import parse_args, validate_args


def _arguments(*words: str) -> Namespace:
    model = "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32"
    train = "--micro-batch-size 1 --train-iters 10 --bf16 --cuda-graph-impl full_iteration"
    sys.argv = ["pretrain_gpt.py", *model.split(), *train.split(), *words]
    return validate_args(parse_args())


def fails() -> None:
    """The check is on by default."""
    _arguments()


def works() -> None:
    """It is off; the logged loss and gradient norm are watched instead."""
    assert not _arguments("--no-check-for-nan-in-loss-and-grad").check_for_nan_in_loss_and_grad
