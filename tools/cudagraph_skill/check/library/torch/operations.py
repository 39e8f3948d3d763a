"""What single operations of torch do under capture: which read the GPU, and what they return.

Each entry was tried on a GPU with torch 2.11 (tests/hazards, and the operation table of references/patterns-compatibility.md);
an operation that captures and replays right stands in none of the tables of hazards.
"""

from __future__ import annotations

from typing import NamedTuple


class Fails(NamedTuple):
    """An operation that fails at capture on GPU tensors: `why` completes "`expression` …"."""

    hazard: str
    why: str


_VALUE = "reads a value from the GPU on the host"
_HOST = "copies a GPU tensor to the host and waits for it"
_COUNT = "makes a result whose size depends on values, which the host has to read"
_LINALG = "checks on the host whether the decomposition succeeded"
_SOLVER = "reads back from the GPU while it decomposes"
_EQUAL = "compares on the GPU and reads the answer on the host"
_SPARSE = "builds or sorts a sparse layout, whose size the host has to read"

# By the operation's own name, as a function of torch or torch.nn.functional and as a method of a tensor.
ALWAYS = {
    "item": Fails("CG201", _VALUE), "is_nonzero": Fails("CG201", _VALUE), "__bool__": Fails("CG201", _VALUE),
    "__float__": Fails("CG201", _VALUE), "__int__": Fails("CG201", _VALUE), "__index__": Fails("CG201", _VALUE),
    "tolist": Fails("CG203", _HOST), "numpy": Fails("CG203", _HOST), "__array__": Fails("CG203", _HOST),
    "masked_select": Fails("CG210", "has a result whose size the host has to read"),
    "nonzero": Fails("CG211", _COUNT), "argwhere": Fails("CG211", _COUNT), "flatnonzero": Fails("CG211", _COUNT),
    "nonzero_tuple": Fails("CG211", _COUNT), "combinations": Fails("CG211", _COUNT),
    "unique": Fails("CG212", _COUNT), "unique_consecutive": Fails("CG212", _COUNT), "bincount": Fails("CG212", _COUNT),
    "histogram": Fails("CG212", _COUNT),
    "equal": Fails("CG215", _EQUAL), "allclose": Fails("CG215", _EQUAL),
    "inverse": Fails("CG219", _LINALG), "cholesky": Fails("CG219", _LINALG), "cholesky_inverse": Fails("CG219", _LINALG),
    "matrix_exp": Fails("CG220", "chooses its scaling on the host"), "pinverse": Fails("CG220", _SOLVER),
    "svd": Fails("CG220", _SOLVER), "symeig": Fails("CG220", _SOLVER), "eig": Fails("CG220", _SOLVER),
    "pca_lowrank": Fails("CG220", _SOLVER), "svd_lowrank": Fails("CG220", _SOLVER),
    "cov": Fails("CG201", "checks its input on the host"), "corrcoef": Fails("CG201", "checks its input on the host"),
    "istft": Fails("CG201", "checks on the host that its windows overlap"),
    "assert_close": Fails("CG215", _EQUAL), "lobpcg": Fails("CG220", _SOLVER),
 "quantize_per_channel": Fails("CG201", "reads its scales on the host"),
    "fake_quantize_per_channel_affine": Fails("CG201", "checks its zero points on the host"),
    "unpad_sequence": Fails("CG203", "reads the lengths on the host"),
    "to_sparse": Fails("CG225", _SPARSE), "to_sparse_coo": Fails("CG225", _SPARSE), "to_sparse_csr": Fails("CG225", _SPARSE),
    "coalesce": Fails("CG225", _SPARSE),
    "ctc_loss": Fails("CG226", "copies its lengths between host and GPU"),
    "as_nested_tensor": Fails("CG227", "copies sizes between host and GPU"),
    "nested_tensor": Fails("CG227", "copies sizes between host and GPU"),
}  # fmt: skip

# By the name below torch.linalg.
LINALG = {
    **{
        name: Fails("CG219", _LINALG)
        for name in ("inv", "solve", "cholesky", "tensorsolve", "tensorinv", "ldl_factor", "lu_factor")
    },
    **{
        name: Fails("CG220", _SOLVER)
        for name in (
            "svd",
            "svdvals",
            "eigh",
            "eigvalsh",
            "eig",
            "eigvals",
            "pinv",
            "lstsq",
            "matrix_rank",
            "cond",
            "matrix_exp",
            "ldl_factor_ex",
        )
    },
}

# Arguments that are Python numbers: positions after the tensor itself (0 is the first argument of the function) and names.
NUMBERS: dict[str, tuple[tuple[int, ...], tuple[str, ...]]] = {
    "full": ((1,), ("fill_value",)), "full_like": ((1,), ("fill_value",)), "new_full": ((2,), ("fill_value",)),
    "arange": ((0, 1, 2), ("start", "end", "step")), "range": ((0, 1, 2), ("start", "end", "step")),
    "histc": ((2, 3), ("min", "max")), "index_fill": ((3,), ("value",)), "index_fill_": ((3,), ("value",)),
    "fill_diagonal_": ((1,), ("fill_value",)),
    "linspace": ((0, 1, 2), ("start", "end", "steps")), "logspace": ((0, 1, 2), ("start", "end", "steps")),
    "add": ((), ("alpha",)), "sub": ((), ("alpha",)), "add_": ((), ("alpha",)), "sub_": ((), ("alpha",)),
    "masked_fill": ((2,), ("value",)), "masked_fill_": ((2,), ("value",)),
    "leaky_relu": ((1,), ("negative_slope",)), "elu": ((1,), ("alpha",)), "celu": ((1,), ("alpha",)),
    "softplus": ((1, 2), ("beta", "threshold")), "hardtanh": ((1, 2), ("min_val", "max_val")),
    "threshold": ((1, 2), ("threshold", "value")), "softshrink": ((1,), ("lambd",)), "hardshrink": ((1,), ("lambd",)),
    "dropout": ((1,), ("p",)), "alpha_dropout": ((1,), ("p",)), "feature_dropout": ((1,), ("p",)),
    "addcmul": ((), ("value",)), "addcdiv": ((), ("value",)), "addcmul_": ((), ("value",)), "addcdiv_": ((), ("value",)),
    "addmm": ((), ("beta", "alpha")), "baddbmm": ((), ("beta", "alpha")), "layer_norm": ((), ("eps",)),
    "uniform_": ((1, 2), ("from", "to", "a", "b")), "normal_": ((1, 2), ("mean", "std")), "exponential_": ((1,), ("lambd",)),
    "scaled_dot_product_attention": ((), ("scale", "dropout_p")), "cross_entropy": ((), ("label_smoothing",)),
    "smooth_l1_loss": ((), ("beta",)), "huber_loss": ((), ("delta",)), "clamp_scalar": ((), ()), "norm": ((1,), ("p",)),
    "eye": ((0, 1), ("n", "m")), "tril": ((1,), ("diagonal",)), "triu": ((1,), ("diagonal",)), "renorm": ((1, 2, 3), ()),
    "randint": ((0, 1), ("low", "high")), "kthvalue": ((1,), ("k",)), "topk": ((1,), ("k",)),
    "polygamma": ((), ()), "pixel_shuffle": ((1,), ()), "_foreach_add_": ((), ("alpha",)),
}  # fmt: skip

# Arguments that are sizes or counts.
SIZES = {
    "zeros", "ones", "empty", "rand", "randn", "randperm", "new_zeros", "new_ones", "new_empty", "view", "reshape", "expand", "repeat",
    "tile", "split", "chunk", "tensor_split", "unflatten", "pad", "interpolate", "unfold", "resize_", "as_strided", "broadcast_to",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d", "one_hot", "hsplit", "vsplit",
}  # fmt: skip

# Arguments that are places along a dimension.
PLACES = {"narrow", "roll", "select", "rot90", "diagonal", "movedim", "slice_scatter", "select_scatter"}

FACTORIES = {"scalar_tensor", "zeros", "ones", "empty", "full", "rand", "randn", "randint", "randperm", "arange", "range", "linspace", "logspace", "eye",
             "tril_indices", "triu_indices", "empty_strided", "hann_window", "hamming_window", "bartlett_window",
             "blackman_window", "kaiser_window"}  # fmt: skip
LIKE = {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "randint_like",
        "new_zeros", "new_ones", "new_empty", "new_full"}  # fmt: skip
RANDOM = {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal", "bernoulli", "multinomial",
          "poisson", "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "gumbel_softmax", "rrelu"}  # fmt: skip
RANDOM_IN_PLACE = {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_"}
RENEWS = {"fill_", "zero_", "copy_", "set_", "zeros_", "ones_", "constant_"}  # the new content does not depend on the old

READS = {
    "item",
    "tolist",
    "is_nonzero",
    "equal",
    "allclose",
    "__bool__",
    "__float__",
    "__int__",
    "__index__",
}  # the answer is Python's
HOST = {"size", "dim", "ndimension", "nelement", "numel", "element_size", "stride", "storage_offset", "is_contiguous", "get_device",
        "is_floating_point", "is_complex", "is_signed", "is_inference", "is_pinned", "is_shared", "is_tensor", "nbytes",
        "is_same_size", "has_names", "is_grad_enabled", "is_autocast_enabled", "is_inference_mode_enabled", "result_type",
        "promote_types", "can_cast", "is_storage", "get_default_dtype", "is_anomaly_enabled", "itemsize", "__len__",
        "is_conj", "is_neg", "is_set_to", "is_distributed", "retains_grad", "_is_view"}  # fmt: skip
VIEWS = {"view", "reshape", "permute", "transpose", "t", "squeeze", "unsqueeze", "flatten", "expand", "expand_as", "view_as", "narrow",
         "select", "detach", "contiguous", "swapaxes", "swapdims", "movedim", "moveaxis", "diagonal", "unfold", "unflatten", "mT", "mH",
         "T", "H", "real", "imag", "alias", "adjoint", "reshape_as", "ravel", "as_strided", "broadcast_to", "requires_grad_",
         "retain_grad", "atleast_1d", "atleast_2d", "view_as_real", "view_as_complex", "data", "conj", "swapaxes_"}  # fmt: skip
REDUCE = {"sum", "mean", "prod", "amax", "amin", "norm", "std", "var", "logsumexp", "nansum", "nanmean", "median", "nanmedian", "mode",
          "min", "max", "argmax", "argmin", "any", "all", "count_nonzero", "aminmax", "quantile", "nanquantile", "vector_norm",
          "cosine_similarity", "std_mean", "var_mean", "dist", "trace", "dot", "vdot", "logdet", "det", "slogdet"}  # fmt: skip
PAIRS = {"max", "min", "median", "nanmedian", "mode", "aminmax"}  # with a dimension: values and indices
SORTED = {"sort", "topk", "kthvalue", "cummax", "cummin", "msort_", "std_mean", "var_mean", "slogdet", "qr", "lu", "geqrf",
          "frexp", "inv_ex", "solve_ex", "cholesky_ex", "lu_factor", "ldl_factor_ex", "lu_factor_ex", "batch_norm_stats"}  # fmt: skip
PARTS = {"chunk", "split", "unbind", "tensor_split", "meshgrid", "broadcast_tensors", "hsplit", "vsplit", "dsplit", "split_with_sizes",
         "unsafe_chunk", "unsafe_split", "align_tensors"}  # fmt: skip
BOOLS = {"isnan", "isinf", "isfinite", "isposinf", "isneginf", "eq", "ne", "lt", "le", "gt", "ge", "greater", "less", "greater_equal",
         "less_equal", "not_equal", "logical_and", "logical_or", "logical_not", "logical_xor", "isclose", "isin", "bool", "any", "all",
         "signbit", "is_nonzero_"}  # fmt: skip
INTS = {"argmax", "argmin", "argsort", "long", "int", "randint", "randperm", "arange", "count_nonzero", "searchsorted", "bucketize",
        "short", "multinomial", "randint_like"}  # fmt: skip
SCALARS_OF_LOSS = {"cross_entropy", "mse_loss", "l1_loss", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
                   "kl_div", "smooth_l1_loss", "huber_loss", "hinge_embedding_loss", "triplet_margin_loss", "gaussian_nll_loss",
                   "cosine_embedding_loss", "margin_ranking_loss", "poisson_nll_loss", "soft_margin_loss",
                   "multilabel_margin_loss", "multi_margin_loss"}  # fmt: skip
MORE_DIMENSIONS = {"unsqueeze": 1, "stack": 1, "one_hot": 1, "embedding": 1, "outer": 1}
SAME_SHAPE = {"clone", "contiguous", "detach", "float", "half", "bfloat16", "double", "long", "int", "bool", "to", "cuda", "cpu", "type",
              "relu", "sigmoid", "tanh", "exp", "log", "sqrt", "abs", "neg", "softmax", "log_softmax", "argsort", "cumsum", "dropout",
              "flip", "roll", "clamp", "masked_fill", "zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like",
              "gelu", "silu", "square", "sign", "round", "floor", "ceil", "rsqrt", "normalize", "layer_norm", "isnan", "isinf",
              "isfinite", "logical_not", "bitwise_not", "cumprod", "type_as", "sort", "tril", "triu", "requires_grad_", "linear",
              "scatter", "scatter_add", "nan_to_num", "fill_", "copy_", "add_", "mul_", "pow", "reciprocal", "erf", "sin", "cos"}  # fmt: skip

NEEDS_CAPTURABLE = {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adadelta", "Rprop", "ASGD"}
NO_CAPTURED_FORM = {"LBFGS", "Adafactor", "SparseAdam"}

ALWAYS_CHECKS = {"OneHotCategorical", "OneHotCategoricalStraightThrough", "Multinomial", "RelaxedOneHotCategorical", "StudentT", "VonMises",
                 "Binomial", "NegativeBinomial", "MultivariateNormal"}  # fmt: skip  # distributions that read the GPU in any case
SYNCHRONIZE = {"torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.cuda.default_stream.synchronize"}
COLLECTIVES = {"all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "broadcast", "reduce",
               "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv", "scatter", "gather"}  # fmt: skip
OBJECT_COLLECTIVES = {"broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list", "send_object_list",
                      "recv_object_list"}  # fmt: skip
