"""Find the hazard id in references/hazards.md for a line that a GPU run reported."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cudagraph_skill.check.hazards import table

if TYPE_CHECKING:
    from collections.abc import Mapping

UNEXPLAINED = "CG107"  # a wrong replay whose cause the run did not find: Python state that nothing in the region shows
_LIBRARY_CALLS = r"^(mm|addmm|bmm|baddbmm|addmv|mv|dot|linear|matmul|_?fft_\w+|.*convolution\w*|cudnn_\w+|.*scaled_mm)$"

CATEGORIES = {
    "python-number": "CG101",
    "argument-number": "CG103",
    "frozen-branch": "CG101",
    "rebinding": "CG301",
    "container": "CG302",
    "cpu-work": "CG106",
    "host-only": "CG101",
    "python-random": "CG601",
    "numpy-random": "CG602",
    "cpu-torch-random": "CG603",
    "clock": "CG104",
    "stream-missing": "CG403",
    "optimizer-state": "CG405",
    "autocast-cache": "CG607",
    "rng-reset": "CG606",
    "rng-input": "CG606",
    "data-assignment": "CG303",
    "gradient": "CG307",
    "captured-path": "CG115",
    "unknown": UNEXPLAINED,
}  # fmt: skip

# Operation (without namespace and overload) and error text to the hazard, the most telling first. Both have to match.
FAILS = tuple(
    (re.compile(operation), re.compile(error), id_)
    for operation, error, id_ in (
        # torch says what it is
        ("", "Attempting CUDA graph capture of step|capturable is False", "CG235"),
        ("", "KeyError: 'capturable'", "CG236"),
        ("", "CTCLoss cannot be graph captured", "CG226"),
        ("", "offset for a CUDA generator|not registered with the capturing graph|register_generator_state", "CG604"),
        ("", "set_current_seed can be called", "CG605"),
        ("", "construct a new CUDAGeneratorImpl", "CG611"),
        ("", "cannot JIT compile during CUDA graph capture", "CG407"),
        ("", "Cannot prepare for replay during capturing", "CG406"),
        ("", "does not support the autocast caching", "CG608"),
        ("", "must not have hooks", "CG411"),
        ("", "use_reentrant=True", "CG609"),
        ("", "once_differentiable", "CG413"),
        ("", "failed to synchronize: cudaErrorStreamCaptureUnsupported", "CG225"),
        ("", "exponential_average_factor|num_batches_tracked", "CG232"),
        ("", "unjoined work", "CG402"),
        ("", "event last recorded in a capturing stream", "CG209"),
        ("", "on another thread", "CG408"),
        ("", "another stream than the capturing", "CG401"),
        ("wait_event|wait_stream|Event.wait", "uncaptured work", "CG410"),
        ("", "uncaptured work|legacy stream|stale reference|independent capture sequences", "CG401"),
        ("", "StreamCapture(Implicit|Isolation|Merge)", "CG401"),
        # the operation says what it is
        ("^(is_nonzero|__bool__)$", "", "CG202"),
        ("^(_local_scalar_dense|item)$", "", "CG201"),
        ("^(equal|allclose)$", "", "CG215"),
        ("^(nonzero|nonzero_numpy|argwhere|combinations)$", "", "CG211"),
        ("^(_unique2?|unique_(dim|consecutive|dim_consecutive)|bincount|histc|_?histogram.*)$", "", "CG212"),
        ("^masked_select", "", "CG210"),
        ("^_?(unsafe_)?(index|index_put_?|index_put_impl_)$", "pinned|Cannot copy between CPU and CUDA", "CG222"),
        ("^_?(unsafe_)?(index|index_put_?|index_put_impl_)$", "", "CG210"),
        ("repeat_interleave", "", "CG213"),
        ("one_hot", "", "CG214"),
        ("linalg_(svd|eig|lstsq|qr|householder|matrix_exp|pinv|matrix_rank|cond|ldl)|^(_?svd|geqrf|ormqr)", "", "CG220"),
        ("linalg|^(inverse|cholesky\\w*|lu_\\w+|_lu_\\w+|logdet|slogdet)$", "", "CG219"),
        ("ctc_loss", "", "CG226"),
        ("nested|segment_reduce", "", "CG227"),
        ("^normal$", "", "CG229"),
        ("sparse|coalesce|_csr_|_coo_", "", "CG225"),
        ("_rnn|dropout_state|^(lstm|gru)$", "", "CG610"),
        ("barrier", "", "CG701"),
        ("object", "", "CG702"),
        ("c10d|nccl|all_?(reduce|gather)|reduce_scatter|broadcast_$|all_?to_?all", "", "CG704"),
        ("Event\\.synchronize|\\bquery$|elapsed_time", "", "CG209"),
        ("synchronize", "", "CG208"),
        ("capture_begin|cuda\\.graph|CUDAGraph", "", "CG406"),
        (_LIBRARY_CALLS, "operation not permitted|STATUS|900", "CG404"),
        # what is left of the error
        ("", "CUSOLVER_STATUS", "CG220"),
        ("", "CUBLAS|CUFFT|CUDNN", "CG404"),
        ("", "(?i:nccl)|process group", "CG704"),
        ("", "previous error during capture|StreamCaptureInvalidated", "CG233"),
        ("", "(?i:generator|seed)", "CG604"),
        ("", "(?i:optimizer)", "CG236"),
        ("", "(?i:sparse)", "CG225"),
        ("", "(?i:compil|dynamo|inductor|triton)", "CG407"),
        ("", "(?i:another stream|wait_stream|event)", "CG401"),
    )
)  # fmt: skip
_REFUSED = re.compile("pinned|Cannot copy between CPU and CUDA")
_COPIES = re.compile(r"^(_to_copy|copy_?|to|cpu|numpy|tolist|_copy_from)$")
_DOWN = re.compile(r"\.cpu\(|\.tolist\(|\.numpy\(|[\"']cpu[\"']")
_WAITS = "CG208"  # the general one of its family: something waits for the GPU
_UPLOAD, _TO_HOST, _INTO_HOST = "CG221", "CG203", "CG224"
GENERAL = {_WAITS, _UPLOAD, _TO_HOST, _INTO_HOST}


def hazard_of(cause: Mapping[str, Any], line: str = "") -> str:
    """Return the hazard id for what a run saw at a line; the general one of its family if none fits better.

    `cause` has `kind` (fails or wrong), `category`, `op`, `error` and `said`; `line` is the user's source.
    """
    fails, category = cause.get("kind") == "fails", str(cause.get("category", ""))
    if not fails and category in CATEGORIES:
        return CATEGORIES[category]
    named = next((hazard.id for hazard in table().values() if category in (hazard.id, hazard.name)), None)
    if named or not fails:
        return named or UNEXPLAINED
    return _failing(plain(str(cause.get("op", ""))), str(cause.get("error", "")), str(cause.get("said", "")), line)


def _failing(operation: str, error: str, message: str, line: str) -> str:
    if _COPIES.match(operation) or (not operation and _REFUSED.search(error)):
        return _copy(operation, line)
    text = f"{error} {message}"
    ids = (id_ for first, second, id_ in FAILS if first.search(operation) and second.search(text))
    return next(ids, _UPLOAD if _REFUSED.search(text) else _WAITS)


def plain(operation: str) -> str:
    """Shorten `aten._local_scalar_dense.default` to `_local_scalar_dense`; a name outside torch's dispatcher is kept."""
    match = re.match(r"(?:aten|prims|\w*torchvision)(?:\.|::)(\w+)", operation)
    return match[1] if match else operation


def _copy(operation: str, line: str) -> str:
    """Return the hazard of a refused copy by its direction, which only the user's line shows."""
    if _DOWN.search(line):
        return _TO_HOST
    return _INTO_HOST if operation.startswith("copy") and re.search(r"(host|cpu)\w*(\.copy_\(|\[.*\]\s*=)", line) else _UPLOAD
