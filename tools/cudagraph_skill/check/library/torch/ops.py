"""What torch's operations do: a row tells how one is called, what it returns, and when a capture of it fails, and why.

A row is for functions of torch and torch.nn.functional and for methods of a tensor of the same name; a dot in a name limits it to
one module or class (`linalg.inv`, `Tensor.where`). `inverse_` has the row of `inverse` unless it has its own. An operation without
a row is taken to launch GPU work that can be captured, and to return a new tensor.

`because` completes "`expression` …". What a GPU showed of an operation stands in benchmarks/evidence/operations*.json, under the
name in `seen`; rows without it were seen with torch 2.11 in the fixtures of tests/hazards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.check.library.torch import conditions as when_

if TYPE_CHECKING:
    from cudagraph_skill.check.library.torch.conditions import Condition


class Failure(NamedTuple):
    """A way in which an operation fails at capture on GPU tensors."""

    hazard: str
    because: str
    when: Condition | None = None


class Operation(NamedTuple):
    """One row of the table."""

    names: tuple[str, ...] = ()
    signature: str = "input"
    returns: str = ""
    shape: str = ""
    dtype: str = ""
    failures: tuple[Failure, ...] = ()
    numbers: tuple[str, ...] = ()  # parameters that are Python numbers: torch reads a GPU tensor in their place
    sizes: tuple[str, ...] = ()  # parameters that are sizes or counts
    places: tuple[str, ...] = ()  # parameters that are places along a dimension
    parts: tuple[str, ...] = ()  # names of the tensors in a tuple that it returns
    layout: str = ""
    random: bool = False
    renews: bool = False  # in place: the new content does not depend on the old
    multiplies: bool = False  # its backward looks for zeros
    since: str = ""  # the first torch release that has it on a GPU, where that is later than 2.4
    seen: str = ""  # the probe that shows the failure


# What an operation returns; a new tensor where nothing is said.
VIEW = "another tensor on the memory of the input"
ITSELF = "the input"
PAIR = "a tuple of the tensors in `parts`"
PAIR_BY_DIM = "a tuple where a dimension is given, else one tensor"
PARTS = "several views"
ROWS = "a view for each item of the first dimension"
FACTORY = "a tensor of a given size"
LIKE = "a tensor like another one"
UPLOAD = "a tensor of Python values"
BOOL_ANSWER = "a bool that the host knows"
ANSWER = "a number that the host knows"
BOOL_READ = "a bool that depends on values"
READ = "a number that depends on values"
LIST_READ = "a list of numbers that depend on values"
JOINED = "a tensor, of whatever it is made"

# Its shape; unknown where nothing is said, unless it has several tensors, whose dimensions are then compared.
SAME = "as the input"
DIMS = "as many dimensions as the input"
REDUCED = "without the dimension `dim`, or without any"
FEWER = "one dimension less than the input"
MORE = "one dimension more than the input"
BROADCAST = "as the tensors together"
LOSS = "no dimension, unless `reduction` is none"
GIVEN = "as many dimensions as sizes are given"
FLAT = "one dimension, unless a part is flattened"
UNKNOWN = "not known"
SCALAR, VECTOR, MATRIX = "no dimension", "one dimension", "two dimensions"

# Its dtype; the common one of its tensors where nothing is said.
BOOL, INT, FLOAT = "bool", "int", "float"
KEPT = "as the input"
CHOSEN = "as the last choice"

_VALUE = "reads a value from the GPU on the host"
_COPY = "copies a GPU tensor to the host and waits for it"
_COUNT = "makes a result whose size depends on values, which the host has to read"
_SUCCESS = "checks on the host whether the decomposition succeeded"
_SOLVER = "reads back from the GPU while it decomposes"
_EQUAL = "compares on the GPU and reads the answer on the host"
_FILL = "copies the number that stands for what is masked out to the GPU"
_SPARSE = "builds or sorts a sparse layout, whose size the host has to read"
_SPARSE_PRODUCT = "builds or multiplies a sparse layout, which waits for the GPU"


def op(
    names: str,
    signature: str = "input",
    returns: str = "",
    shape: str = "",
    dtype: str = "",
    *,
    fails: str = "",
    because: str = "",
    when: Condition | None = None,
    also: Failure | None = None,
    numbers: str = "",
    sizes: str = "",
    places: str = "",
    parts: str = "",
    layout: str = "",
    random: bool = False,
    renews: bool = False,
    multiplies: bool = False,
    since: str = "",
    seen: str = "",
) -> Operation:
    """Return a row; lists of names are written with spaces between them."""
    failures = (Failure(fails, because, when),) if fails else ()
    return Operation(
        tuple(names.split()),
        signature,
        returns,
        shape,
        dtype,
        (*failures, also) if also else failures,
        tuple(numbers.split()),
        tuple(sizes.split()),
        tuple(places.split()),
        tuple(parts.split()),
        layout,
        random,
        renews,
        multiplies,
        since,
        seen,
    )


_ROWS = (
    # Values that the host asks for
    op("item __int__ __float__ __index__", returns=READ, fails="CG201", because=_VALUE, seen="item"),
    op("is_nonzero __bool__", returns=BOOL_READ, fails="CG201", because=_VALUE, seen="mask.is_nonzero"),
    op("tolist", returns=LIST_READ, fails="CG203", because=_COPY, seen="tolist"),
    op("numpy", "input, *, force", fails="CG203", because=_COPY),
    op("__array__", "input, dtype", fails="CG203", because=_COPY),
    op("equal", "input, other", BOOL_READ, fails="CG215", because=_EQUAL, when=when_.compares_two, seen="equal"),
    op("allclose", "input, other, rtol, atol, equal_nan", BOOL_READ, fails="CG215", because=_EQUAL, seen="allclose"),
    op("testing.assert_close", "actual, expected", fails="CG215", because=_EQUAL, seen="assert_close"),
    op("cov", "input, *, correction, fweights, aweights", fails="CG201", because="checks its input on the host", seen="cov"),
    op("corrcoef", fails="CG201", because="checks its input on the host", seen="corrcoef"),
    op("istft", "input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex",
       fails="CG201", because="checks on the host that its windows overlap", seen="istft"),
    op("rnn.unpad_sequence", "padded_sequences, lengths, batch_first", fails="CG203", because="reads the lengths on the host",
       seen="unpad_sequence cuda lengths"),

    # What the host knows of a tensor without looking at its values
    op("dim ndimension numel nelement element_size storage_offset get_device", returns=ANSWER),
    op("__len__", returns=ANSWER),
    op("size stride", "input, dim", ANSWER),
    op("result_type", "tensor|tensor1|scalar|scalar1, other|tensor2|scalar2", ANSWER),
    op("promote_types", "type1, type2", ANSWER),
    op("get_default_dtype", "", ANSWER),
    op("can_cast", "from_, to", ANSWER),
    op("is_contiguous", "input, memory_format", BOOL_ANSWER),
    op("is_floating_point is_complex is_signed is_inference is_conj is_neg is_distributed", returns=BOOL_ANSWER),
    op("is_same_size", "input, other", BOOL_ANSWER),
    op("is_set_to", "input, tensor", BOOL_ANSWER),
    op("is_pinned", "input, device", BOOL_ANSWER),
    op("is_shared retains_grad _is_view", returns=BOOL_ANSWER),
    op("is_tensor is_storage", "obj", BOOL_ANSWER),
    op("is_grad_enabled is_inference_mode_enabled is_anomaly_enabled", "", BOOL_ANSWER),
    op("is_autocast_enabled", "", BOOL_ANSWER),

    # New tensors
    op("zeros ones empty", "*size, dtype, layout, device, pin_memory", FACTORY, GIVEN, FLOAT, sizes="size"),
    op("rand randn", "*size, generator, dtype, layout, device, pin_memory", FACTORY, GIVEN, FLOAT, sizes="size", random=True),
    op("full", "size, fill_value, *, dtype, layout, device, pin_memory", FACTORY, GIVEN, numbers="fill_value", seen="full fill tensor"),
    op("empty_strided", "size, stride, *, dtype, layout, device, pin_memory", FACTORY, GIVEN, FLOAT),
    # `randint(high, size)` binds one place early: rules for its size look at all three
    op("randint", "low, high, size, *, generator, dtype, layout, device, pin_memory", FACTORY, GIVEN, INT, numbers="low high",
       random=True, seen="randint tensor high"),
    op("randperm", "n, *, generator, dtype, layout, device, pin_memory", FACTORY, VECTOR, INT, sizes="n", random=True),
    op("arange", "start|end, end, step, *, dtype, layout, device, pin_memory", FACTORY, VECTOR, INT, numbers="start end step",
       seen="arange(tensor)"),
    op("range", "start, end, step, *, dtype, layout, device, pin_memory", FACTORY, VECTOR, FLOAT, numbers="start end step"),
    op("linspace", "start, end, steps, *, dtype, layout, device, pin_memory", FACTORY, VECTOR, FLOAT, numbers="start end steps"),
    op("logspace", "start, end, steps, base, *, dtype, layout, device, pin_memory", FACTORY, VECTOR, FLOAT, numbers="start end steps"),
    op("eye", "n, m, *, dtype, layout, device, pin_memory", FACTORY, MATRIX, FLOAT, numbers="n m"),
    op("tril_indices triu_indices", "row, col, offset, *, dtype, layout, device, pin_memory", FACTORY, MATRIX),
    op("scalar_tensor", "s, *, dtype, layout, device, pin_memory", FACTORY, SCALAR),
    op("hann_window bartlett_window blackman_window", "window_length, periodic, *, dtype, layout, device, pin_memory", FACTORY, VECTOR, FLOAT),
    op("hamming_window", "window_length, periodic, alpha, beta, *, dtype, layout, device, pin_memory", FACTORY, VECTOR, FLOAT),
    op("kaiser_window", "window_length, periodic, beta, *, dtype, layout, device, pin_memory", FACTORY, VECTOR, FLOAT),
    op("fft.fftfreq fft.rfftfreq", "n, d, *, dtype, layout, device", FACTORY, VECTOR, FLOAT),
    op("zeros_like ones_like empty_like", "input, *, dtype, layout, device, pin_memory, memory_format", LIKE, SAME),
    op("rand_like randn_like", "input, *, dtype, layout, device, pin_memory, memory_format", LIKE, SAME, random=True),
    op("full_like", "input, fill_value, *, dtype, layout, device, pin_memory, memory_format", LIKE, SAME, numbers="fill_value",
       seen="full_like fill tensor"),
    op("randint_like", "input, low|high, high, *, dtype, layout, device, memory_format", LIKE, SAME, INT, random=True),
    op("new_zeros new_ones new_empty", "input, *size, dtype, layout, device, pin_memory", LIKE, GIVEN, sizes="size"),
    op("new_full", "input, size, fill_value, *, dtype, layout, device, pin_memory", LIKE, GIVEN, numbers="fill_value"),
    op("tensor", "data, *, dtype, device, requires_grad, pin_memory", UPLOAD),
    op("as_tensor", "data, dtype, device", UPLOAD),
    op("asarray", "obj, *, dtype, device, copy, requires_grad", UPLOAD),
    op("from_numpy", "ndarray", UPLOAD),
    op("new_tensor", "input, data, *, dtype, device, requires_grad, pin_memory", UPLOAD),
    op("torch.Tensor", "data, *, device", UPLOAD),

    # Random numbers
    op("bernoulli", "input, p, *, generator", random=True),
    op("multinomial", "input, num_samples, replacement, *, generator", dtype=INT, random=True),
    op("poisson", "input, generator", random=True),
    op("normal", "mean, std, size, *, generator, dtype, layout, device, pin_memory", random=True, fails="CG229",
       because="checks the tensor of standard deviations on the host", when=when_.is_gpu_tensor("std"), seen="torch.normal(t,t)"),
    op("dropout", "input, p, training|train, inplace", "", SAME, numbers="p", random=True),
    op("alpha_dropout", "input, p, training|train, inplace", numbers="p", random=True),
    op("feature_dropout", "input, p, train", numbers="p"),
    op("dropout1d dropout2d dropout3d", "input, p, training, inplace", random=True),
    op("gumbel_softmax", "logits, tau, hard, eps, dim", random=True),
    op("rrelu", "input, lower, upper, training, inplace|generator", random=True),
    op("normal_", "input, mean, std, *, generator", numbers="mean std", random=True),
    op("log_normal_", "input, mean, std, *, generator", random=True),
    op("uniform_", "input, from, to, *, generator", numbers="from to", random=True),
    op("random_", "input, from|to, to, *, generator", random=True),
    op("exponential_", "input, lambd, *, generator", numbers="lambd", random=True),
    op("cauchy_", "input, median, sigma, *, generator", random=True),
    op("geometric_", "input, p, *, generator", random=True),

    # Random numbers and constants that initialise a parameter
    op("init.uniform_", "tensor, a, b, generator", random=True),
    op("init.normal_", "tensor, mean, std, generator", random=True),
    op("init.trunc_normal_", "tensor, mean, std, a, b, generator", random=True),
    op("init.xavier_uniform_ init.xavier_normal_ init.orthogonal_", "tensor, gain, generator", random=True),
    op("init.kaiming_uniform_ init.kaiming_normal_", "tensor, a, mode, nonlinearity, generator", random=True),
    op("init.sparse_", "tensor, sparsity, std, generator", fails="CG222", because="chooses the zeros by an index on the CPU",
       random=True, seen="sparse_ init"),
    op("init.constant_", "tensor, val", renews=True),
    op("init.zeros_ init.ones_ init.eye_", "tensor", renews=True),
    op("init.dirac_", "tensor, groups", renews=True),

    # Written in place
    op("fill_", "input, value", renews=True),
    op("zero_", renews=True),
    op("copy_", "input, src|other, non_blocking", renews=True),
    op("set_", "input, source, storage_offset, size, stride", renews=True),
    op("resize_", "input, *size, memory_format", sizes="size"),
    op("fill_diagonal_", "input, fill_value, wrap", numbers="fill_value"),
    op("requires_grad_", "input, requires_grad", ITSELF),
    op("retain_grad", "input", ITSELF),
    op("_foreach_add_", "input, other|scalar|scalars, *, alpha", numbers="alpha"),

    # Views
    op("detach", "input", VIEW, SAME),
    op("contiguous", "input, *, memory_format", VIEW, SAME),
    op("t", "input", VIEW, SAME),
    op("transpose", "input, dim0, dim1", VIEW, SAME),
    op("swapaxes", "input, axis0, axis1", VIEW, SAME),
    op("swapdims", "input, dim0, dim1", VIEW),
    op("real imag adjoint conj view_as_real view_as_complex", "input", VIEW),
    op("atleast_1d atleast_2d", "input|tensors", VIEW),
    op("view", "input, *size, dtype", VIEW, GIVEN, sizes="size"),
    op("reshape", "input, *shape", VIEW, GIVEN, sizes="shape"),
    op("expand", "input, *size, implicit", VIEW, GIVEN, sizes="size"),
    op("broadcast_to", "input, size", VIEW, GIVEN, sizes="size"),
    op("permute", "input, *dims", VIEW, GIVEN),
    op("view_as expand_as reshape_as", "input, other", VIEW),
    op("squeeze", "input, dim", VIEW),
    op("unsqueeze", "input, dim", VIEW, MORE),
    op("flatten", "input, start_dim, end_dim", VIEW, FLAT),
    op("ravel", "input", VIEW, FLAT),
    op("unflatten", "input, dim, *sizes", VIEW, sizes="dim sizes"),
    op("as_strided", "input, size, stride, storage_offset", VIEW, sizes="size stride storage_offset"),
    op("Tensor.unfold", "input, dimension, size, step", VIEW, sizes="dimension size step"),
    op("narrow", "input, dim, start, length", VIEW, places="dim start length", seen="narrow tensor start"),
    op("select", "input, dim, index", VIEW, FEWER, places="dim index"),
    op("diagonal", "input, offset, dim1, dim2", VIEW, places="offset dim1 dim2"),
    op("movedim", "input, source, destination", VIEW, places="source destination"),
    op("moveaxis", "input, source, destination", VIEW),

    # Several views
    op("split", "input|tensor, split_size|split_size_or_sections, dim", PARTS, sizes="split_size dim"),
    op("chunk", "input, chunks, dim", PARTS, sizes="chunks dim"),
    op("tensor_split", "input, sections|indices|tensor_indices_or_sections, dim", PARTS, sizes="sections dim"),
    op("hsplit vsplit", "input, sections|indices", PARTS, sizes="sections"),
    op("dsplit", "input, sections|indices", PARTS),
    op("split_with_sizes", "input, split_sizes, dim", PARTS),
    op("unsafe_chunk", "input, chunks, dim", PARTS),
    op("unsafe_split", "input|tensor, split_size, dim", PARTS),
    op("unbind", "input, dim", ROWS),
    op("meshgrid", "*tensors, indexing", PARTS),
    op("broadcast_tensors", "*tensors", PARTS),

    # Sums and other reductions
    op("sum nansum nanmean", "input, dim, keepdim, *, dtype", "", REDUCED),
    op("mean", "input, dim, keepdim, *, dtype", "", REDUCED, FLOAT),
    op("prod", "input, dim, keepdim, *, dtype", "", REDUCED, multiplies=True),
    op("amax amin", "input, dim, keepdim", "", REDUCED, KEPT),
    op("logsumexp", "input, dim, keepdim", "", REDUCED),
    op("all any", "input, dim, keepdim", "", REDUCED, BOOL),
    op("argmax argmin", "input, dim, keepdim", "", REDUCED, INT),
    op("count_nonzero", "input, dim", "", REDUCED, INT),
    op("std var", "input, dim, unbiased, keepdim, *, correction", "", REDUCED),
    op("std_mean", "input, dim, unbiased, keepdim, *, correction", PAIR, REDUCED, parts="std mean"),
    op("var_mean", "input, dim, unbiased, keepdim, *, correction", PAIR, REDUCED, parts="var mean"),
    op("max min", "input, dim|other, keepdim", PAIR_BY_DIM, REDUCED, KEPT, parts="values indices"),
    op("median nanmedian", "input, dim, keepdim", PAIR_BY_DIM, REDUCED, parts="values indices"),
    op("mode", "input, dim, keepdim", PAIR, FEWER, parts="values indices"),
    op("aminmax", "input, *, dim, keepdim", PAIR, REDUCED, parts="min max"),
    op("quantile nanquantile", "input, q, dim, keepdim, *, interpolation", "", REDUCED),
    op("norm", "input, p, dim, keepdim, out, dtype", "", REDUCED, numbers="p", fails="CG220",
       because=f"needs singular values: it {_SOLVER}", when=when_.is_nuclear),
    op("linalg.vector_norm", "x, ord, dim, keepdim", "", REDUCED),
    op("cosine_similarity", "x1, x2, dim, eps", "", FEWER),
    op("dist", "input, other, p", "", SCALAR),
    op("dot", "input, tensor|other", "", SCALAR),
    op("vdot", "input, other", "", SCALAR),
    op("trace det logdet", "input", "", SCALAR),
    op("linalg.det", "A", "", SCALAR),
    op("slogdet", "input", PAIR, SCALAR, parts="sign logabsdet"),
    op("linalg.slogdet", "A", PAIR, SCALAR, parts="sign logabsdet"),

    # Reductions under a mask make a tensor of the number that stands for what is left out
    op("masked.sum masked.mean masked.prod masked.amax masked.amin masked.logsumexp", "input, dim, *, keepdim, dtype, mask", "", REDUCED,
       fails="CG221", because=_FILL, when=when_.is_given("mask"), seen="masked.mean"),
    op("masked.argmax masked.argmin", "input, dim, *, keepdim, dtype, mask", "", REDUCED, INT, fails="CG221", because=_FILL,
       when=when_.is_given("mask"), seen="masked.mean"),
    op("masked.median", "input, dim, *, keepdim, dtype, mask", "", FEWER, fails="CG221", because=_FILL,
       when=when_.is_given("mask"), seen="masked.mean"),
    op("masked.std masked.var", "input, dim, unbiased, *, correction, keepdim, dtype, mask", "", REDUCED, fails="CG221", because=_FILL,
       when=when_.is_given("mask"), seen="masked.mean"),
    op("masked.norm", "input, ord, dim, *, keepdim, dtype, mask", "", REDUCED, fails="CG221", because=_FILL,
       when=when_.is_given("mask"), seen="masked.mean"),
    op("masked.softmax masked.log_softmax masked.softmin masked.cumsum masked.cumprod", "input, dim, *, dtype, mask", "", SAME,
       fails="CG221", because=_FILL, when=when_.is_given("mask"), seen="masked.softmax"),
    op("masked.normalize", "input, ord, dim, *, eps, dtype, mask", "", SAME, fails="CG221", because=_FILL,
       when=when_.is_given("mask"), seen="masked.softmax"),

    # Sorted and decomposed
    op("sort", "input, dim, descending, *, stable", PAIR, SAME, parts="values indices"),
    op("argsort", "input, dim, descending, *, stable", "", SAME, INT),
    op("msort", "input", "", SAME),
    op("topk", "input, k, dim, largest, sorted", PAIR, DIMS, numbers="k", parts="values indices"),
    op("kthvalue", "input, k, dim, keepdim", PAIR, FEWER, numbers="k", parts="values indices"),
    op("cummax cummin", "input, dim", PAIR, DIMS, parts="values indices"),
    op("frexp", "input", PAIR, DIMS, parts="mantissa exponent"),
    op("qr", "input, some", PAIR, DIMS, parts="Q R"),
    op("linalg.qr", "A, mode", PAIR, DIMS, parts="Q R"),
    op("geqrf", "input", PAIR, DIMS, parts="a tau"),
    op("lu", "input, pivot, get_infos", PAIR, DIMS, parts="LU pivots"),
    op("batch_norm_stats", "input, eps", PAIR, VECTOR, parts="mean invstd"),

    # Results whose size depends on values
    op("masked_select", "input, mask", fails="CG210", because="has a result whose size the host has to read", seen="masked_select"),
    op("nonzero", "input, *, as_tuple", fails="CG211", because=_COUNT, seen="nonzero"),
    op("nonzero_static", "input, *, size, fill_value", "", MATRIX, INT, since="2.6"),
    op("argwhere", fails="CG211", because=_COUNT, seen="argwhere"),
    op("combinations", "input, r, with_replacement", fails="CG211", because=_COUNT, seen="combinations"),
    op("unique", "input, sorted, return_inverse, return_counts, dim", fails="CG212", because=_COUNT, seen="unique"),
    op("unique_consecutive", "input, return_inverse, return_counts, dim", fails="CG212", because=_COUNT, seen="unique_consecutive"),
    op("bincount", "input, weights, minlength", fails="CG212", because=_COUNT, seen="bincount minlength"),
    op("histogram", "input, bins, *, range, weight, density", fails="CG212", because=_COUNT),
    op("histc", "input, bins, min, max", fails="CG212", because="reads the range on the host: min and max are missing",
       when=when_.is_missing("max"), numbers="min max", seen="histc no range"),
    op("isin", "elements|element, test_elements|test_element, *, assume_unique, invert", dtype=BOOL, fails="CG212",
       because="looks for so many elements that it sorts out unique ones, whose number the host reads",
       when=when_.looks_for_many, seen="isin large"),
    op("repeat_interleave", "input, repeats, dim, *, output_size", fails="CG213",
       because="sums the repeats on the host: output_size= is missing", when=when_.repeats_by_tensor,
       seen="repeat_interleave tensor"),
    op("one_hot", "input, num_classes", "", MORE, fails="CG214",
       because="reads the largest class on the host: num_classes is missing", when=when_.infers_classes,
       sizes="num_classes", seen="one_hot inferred"),

    # Chosen by a condition or an index
    op("where", "condition, input, other", JOINED, BROADCAST, CHOSEN, fails="CG211", because=f"with one argument {_COUNT}",
       when=when_.has_one_argument, also=Failure("CG221", "copies a CPU tensor to the GPU", when_.is_cpu_tensor("input", "other")),
       seen="where cpu 0-d tensor"),
    op("Tensor.where", "input, condition, other", JOINED, BROADCAST, CHOSEN, fails="CG221", because="copies a CPU tensor to the GPU",
       when=when_.is_cpu_tensor("condition", "other")),
    op("index_put index_put_", "input, indices, values, accumulate", fails="CG210",
       because="writes through a boolean mask: the positions are read on the host", when=when_.writes_through_mask,
       seen="x[None-mask] index_put bool full"),
    op("masked_fill", "input, mask, value", "", SAME, numbers="value", seen="masked_fill 0-d tensor"),
    op("index_fill", "input, dim, index, value", numbers="value"),
    op("index_select", "input, dim, index", "", DIMS, KEPT),
    op("gather", "input, dim, index, *, sparse_grad", "", UNKNOWN, KEPT),
    op("scatter", "input, dim, index, src|value, *, reduce", "", SAME),
    op("scatter_add", "input, dim, index, src", "", SAME),
    op("roll", "input, shifts, dims", "", SAME, places="shifts dims", seen="roll by tensor"),
    op("rot90", "input, k, dims", places="k dims"),
    op("slice_scatter", "input, src, dim, start, end, step", places="dim start end step"),
    op("select_scatter", "input, src, dim, index", places="dim index"),
    op("searchsorted", "sorted_sequence, input, *, out_int32, right, side, sorter", dtype=INT, fails="CG201",
       because="checks its sorter on the host", when=when_.is_given("sorter"), seen="searchsorted sorter"),
    op("bucketize", "input, boundaries, *, out_int32, right", dtype=INT),
    op("segment_reduce", "data, reduce, *, lengths, indices, offsets, axis, unsafe, initial", fails="CG227",
       because="checks the lengths on the host: unsafe=True is missing", when=when_.is_not_true("unsafe"),
       seen="segment_reduce lengths"),

    # Put together
    op("cat concat concatenate", "tensors, dim", JOINED, DIMS, KEPT),
    op("stack", "tensors, dim", JOINED, MORE, KEPT),
    op("repeat", "input, *repeats", sizes="repeats"),
    op("tile", "input, *dims", sizes="dims"),
    op("pad", "input, pad, mode, value", sizes="pad"),
    op("interpolate", "input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias",
       sizes="size scale_factor"),
    op("unfold", "input, kernel_size, dilation, padding, stride", sizes="kernel_size"),
    op("adaptive_avg_pool1d adaptive_avg_pool2d", "input, output_size", sizes="output_size"),
    op("adaptive_max_pool1d adaptive_max_pool2d", "input, output_size", sizes="output_size"),
    op("pixel_shuffle", "input, upscale_factor", numbers="upscale_factor"),
    op("outer", "input, vec2", "", MORE),
    op("embedding", "input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse", "", MORE, FLOAT),

    # Products of matrices
    op("matmul", "input, other", "", UNKNOWN, fails="CG225", because="multiplies a sparse tensor, which waits for the GPU",
       when=when_.multiplies_sparse),
    op("mm", "input, mat2", "", UNKNOWN, fails="CG225", because="multiplies a sparse tensor, which waits for the GPU",
       when=when_.multiplies_sparse),
    op("bmm", "input, mat2", "", UNKNOWN),
    op("einsum", "equation, *operands", "", UNKNOWN),
    op("linear", "input, weight, bias", "", SAME, FLOAT),
    op("addmm", "input, mat1, mat2, *, beta, alpha", numbers="beta alpha"),
    op("baddbmm", "input, batch1, batch2, *, beta, alpha", numbers="beta alpha"),
    op("scaled_dot_product_attention", "query, key, value, attn_mask, dropout_p, is_causal, *, scale, enable_gqa",
       numbers="scale dropout_p"),

    # Element by element
    op("exp log sqrt rsqrt abs neg square sign floor ceil reciprocal erf sin cos tanh bitwise_not", "input", "", SAME),
    op("relu silu", "input, inplace", "", SAME),
    op("sigmoid", "input", "", SAME, FLOAT),
    op("gelu", "input, *, approximate", "", SAME),
    op("round", "input, *, decimals", "", SAME),
    op("clamp", "input, min, max", "", SAME),
    op("pow", "input, exponent", "", SAME),
    op("nan_to_num", "input, nan, posinf, neginf", "", SAME),
    op("cumsum", "input, dim, *, dtype", "", SAME),
    op("cumprod", "input, dim, *, dtype", "", SAME, multiplies=True),
    op("flip", "input, *dims", "", SAME),
    op("softmax log_softmax", "input, dim, dtype", "", SAME, FLOAT),
    op("normalize", "input, p, dim, eps, out", "", SAME),
    op("layer_norm", "input, normalized_shape, weight, bias, eps", "", SAME, FLOAT, numbers="eps"),
    op("tril triu", "input, diagonal", "", SAME, numbers="diagonal"),
    op("clone", "input, *, memory_format", "", SAME, layout=KEPT),
    op("float half bfloat16 double", "input, memory_format", "", SAME, FLOAT),
    op("long int short", "input, memory_format", "", SAME, INT),
    op("bool", "input, memory_format", "", SAME, BOOL),
    op("isnan isinf isfinite isposinf isneginf signbit logical_not", "input", "", SAME, BOOL),
    op("eq ne lt le gt ge greater less greater_equal less_equal not_equal", "input, other", "", BROADCAST, BOOL),
    op("logical_and logical_or logical_xor", "input, other", "", BROADCAST, BOOL),
    op("isclose", "input, other, rtol, atol, equal_nan", "", BROADCAST, BOOL),
    op("add sub", "input, other, *, alpha", "", BROADCAST, numbers="alpha", seen="add alpha tensor"),
    op("mul maximum minimum", "input, other", "", BROADCAST),
    op("bitwise_and bitwise_or", "input, other", "", BROADCAST, KEPT),
    op("div", "input, other, *, rounding_mode", "", BROADCAST),
    op("addcmul addcdiv", "input, tensor1, tensor2, *, value", numbers="value"),
    op("leaky_relu", "input, negative_slope, inplace", numbers="negative_slope", seen="leaky_relu slope tensor"),
    op("elu celu", "input, alpha, inplace", numbers="alpha"),
    op("softplus", "input, beta, threshold", numbers="beta threshold"),
    op("hardtanh", "input, min_val, max_val, inplace", numbers="min_val max_val"),
    op("threshold", "input, threshold, value, inplace", numbers="threshold value"),
    op("softshrink hardshrink", "input, lambd", numbers="lambd"),
    op("renorm", "input, p, dim, maxnorm", numbers="p dim maxnorm"),

    # Losses
    op("cross_entropy", "input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing", "", LOSS,
       numbers="label_smoothing"),
    op("nll_loss", "input, target, weight, size_average, ignore_index, reduce, reduction", "", LOSS),
    op("mse_loss l1_loss", "input, target, size_average, reduce, reduction, weight", "", LOSS),
    op("smooth_l1_loss", "input, target, size_average, reduce, reduction, beta", "", LOSS, numbers="beta"),
    op("huber_loss", "input, target, reduction, delta, weight", "", LOSS, numbers="delta"),
    op("binary_cross_entropy", "input, target, weight, size_average, reduce, reduction", "", LOSS),
    op("binary_cross_entropy_with_logits", "input, target, weight, size_average, reduce, reduction, pos_weight", "", LOSS),
    op("kl_div", "input, target, size_average, reduce, reduction, log_target", "", LOSS),
    op("hinge_embedding_loss", "input, target, margin, size_average, reduce, reduction", "", LOSS),
    op("cosine_embedding_loss margin_ranking_loss", "input1, input2, target, margin, size_average, reduce, reduction", "", LOSS),
    op("triplet_margin_loss", "anchor, positive, negative, margin, p, eps, swap, size_average, reduce, reduction", "", LOSS),
    op("poisson_nll_loss", "input, target, log_input, full, size_average, eps, reduce, reduction", "", LOSS),
    op("soft_margin_loss multilabel_margin_loss", "input, target, size_average, reduce, reduction", "", LOSS),
    op("multi_margin_loss", "input, target, p, margin, weight, size_average, reduce, reduction", "", LOSS),
    op("gaussian_nll_loss", "input, target, var, full, eps, reduction", "", LOSS, fails="CG202",
       because="asks on the host whether a variance is negative", when=when_.is_tensor("var"), seen="gaussian_nll_loss backward"),
    op("ctc_loss", "log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity", fails="CG226",
       because="copies its lengths between host and GPU", seen="ctc_loss cuda lengths"),

    # Linear algebra: a solver either tests on the host that it succeeded, or reads back while it works
    op("inverse", fails="CG219", because=_SUCCESS, seen="torch.inverse batched"),
    op("cholesky", "input, upper", fails="CG219", because=_SUCCESS),
    op("linalg.inv", "A", fails="CG219", because=_SUCCESS, seen="linalg.inv"),
    op("linalg.tensorinv", "A|input, ind", fails="CG219", because=_SUCCESS, seen="linalg.tensorsolve tensorinv"),
    op("linalg.solve", "A, B, *, left", fails="CG219", because=_SUCCESS, seen="linalg.solve"),
    op("linalg.tensorsolve", "A|input, B|other, dims", fails="CG219", because=_SUCCESS),
    op("linalg.cholesky", "A|input, *, upper", fails="CG219", because=_SUCCESS, seen="linalg.cholesky"),
    op("linalg.lu_factor", "A, *, pivot", PAIR, DIMS, parts="LU pivots", fails="CG219", because=_SUCCESS, seen="linalg.lu_factor"),
    op("linalg.ldl_factor", "A|input, *, hermitian", PAIR, DIMS, parts="LD pivots", fails="CG219", because=_SUCCESS),
    op("linalg.inv_ex", "A, *, check_errors", PAIR, DIMS, parts="inverse info", fails="CG219",
       because=f"{_SUCCESS}: check_errors=True", when=when_.is_true("check_errors"), seen="inv_ex check_errors"),
    op("linalg.solve_ex", "A, B, *, left, check_errors", PAIR, DIMS, parts="result info", fails="CG219",
       because=f"{_SUCCESS}: check_errors=True", when=when_.is_true("check_errors")),
    op("linalg.cholesky_ex", "A|input, *, upper, check_errors", PAIR, DIMS, parts="L info", fails="CG219",
       because=f"{_SUCCESS}: check_errors=True", when=when_.is_true("check_errors")),
    op("linalg.lu_factor_ex", "A, *, pivot, check_errors", PAIR, DIMS, parts="LU pivots info", fails="CG219",
       because=f"{_SUCCESS}: check_errors=True", when=when_.is_true("check_errors")),
    op("linalg.ldl_factor_ex", "A|input, *, hermitian, check_errors", PAIR, DIMS, parts="LD pivots info", fails="CG220",
       because=_SOLVER, seen="linalg.ldl_factor_ex"),
    op("matrix_power", "input, n", fails="CG219", because=f"inverts, and {_SUCCESS}", when=when_.inverts),
    op("linalg.matrix_power", "A|input, n", fails="CG219", because=f"inverts, and {_SUCCESS}", when=when_.inverts,
       seen="matrix_power negative"),
    op("matrix_exp linalg.matrix_exp", "input|A", fails="CG220", because="chooses its scaling on the host", seen="matrix_exp"),
    op("pinverse", "input, rcond", fails="CG220", because=_SOLVER),
    op("svd", "input, some, compute_uv", PAIR, DIMS, parts="U S V", fails="CG220", because=_SOLVER),
    op("linalg.svd", "A, full_matrices, *, driver", PAIR, DIMS, parts="U S Vh", fails="CG220", because=_SOLVER, seen="linalg.svd"),
    op("svd_lowrank", "A, q, niter, M", PAIR, DIMS, parts="U S V", fails="CG220", because=_SOLVER, seen="svd_lowrank"),
    op("pca_lowrank", "A, q, center, niter", PAIR, DIMS, parts="U S V", fails="CG220", because=_SOLVER),
    op("lobpcg", "A, k, B, X, n, iK, niter, tol, largest, method", PAIR, DIMS, parts="eigenvalues eigenvectors", fails="CG220",
       because=_SOLVER, seen="lobpcg"),
    op("linalg.svdvals", "A, *, driver", fails="CG220", because=_SOLVER, seen="linalg.svdvals"),
    op("linalg.eig", "A|input", PAIR, DIMS, parts="eigenvalues eigenvectors", fails="CG220", because=_SOLVER),
    op("linalg.eigh", "A, UPLO", PAIR, DIMS, parts="eigenvalues eigenvectors", fails="CG220", because=_SOLVER, seen="linalg.eigh"),
    op("linalg.eigvals", "A|input", fails="CG220", because=_SOLVER, seen="linalg.eigvals"),
    op("linalg.eigvalsh", "A|input, UPLO", fails="CG220", because=_SOLVER, seen="linalg.eigvalsh"),
    op("linalg.pinv", "A|input, rcond, hermitian, *, atol, rtol", fails="CG220", because=_SOLVER, seen="linalg.pinv"),
    op("linalg.lstsq", "A|input, B|b, rcond, *, driver", PAIR, DIMS, parts="solution residuals rank singular_values", fails="CG220",
       because=_SOLVER, seen="linalg.lstsq"),
    op("linalg.matrix_rank", "A|input, tol, hermitian, *, atol, rtol", fails="CG220", because=_SOLVER, seen="linalg.matrix_rank"),
    op("linalg.cond", "A|input, p", fails="CG220", because=_SOLVER, seen="linalg.cond"),
    op("linalg.norm", "input, ord, dim, keepdim, *, dtype", fails="CG220", because=f"needs singular values: it {_SOLVER}",
       when=when_.is_norm_of_matrix),
    op("linalg.matrix_norm", "A|input, ord, dim, keepdim, *, dtype", fails="CG220", because=f"needs singular values: it {_SOLVER}",
       when=when_.is_spectral_or_nuclear, seen="linalg.matrix_norm 2"),

    # Sparse, nested and quantized tensors
    op("to_sparse", "input, sparse_dim|layout, *, layout, blocksize, dense_dim", fails="CG225", because=_SPARSE, layout="sparse",
       seen="to_sparse"),
    op("to_sparse_coo", fails="CG225", because=_SPARSE),
    op("to_sparse_csr", "input, dense_dim", fails="CG225", because=_SPARSE, seen="to_sparse_csr"),
    op("coalesce", fails="CG225", because=_SPARSE, when=when_.is_not_coalesced, layout="coalesced", seen="sparse coo coalesce"),
    op("sparse_coo_tensor", "indices, values, size, *, dtype, layout, device, pin_memory, is_coalesced", layout="sparse"),
    op("sparse.mm", "sparse, dense, reduce", fails="CG225", because=_SPARSE_PRODUCT,
       when=when_.is_not_sorted_out, seen="sparse coo mm"),
    op("sparse.addmm", "input, mat1, mat2, *, beta, alpha", fails="CG225", because=_SPARSE_PRODUCT, when=when_.is_not_sorted_out),
    op("sparse.sampled_addmm", "input, mat1, mat2, *, beta, alpha", fails="CG225", because=_SPARSE_PRODUCT,
       when=when_.is_not_sorted_out),
    op("sparse.sum", "input, dim, dtype", fails="CG225", because=_SPARSE_PRODUCT, seen="sparse.sum"),
    op("sparse.softmax sparse.log_softmax", "input, dim, *, dtype"),
    op("nested.as_nested_tensor", "ts, dtype, device, layout", fails="CG227", because="copies sizes between host and GPU",
       seen="nested_tensor"),
    op("nested.nested_tensor", "tensor_list, *, dtype, layout, device, requires_grad, pin_memory", fails="CG227",
       because="copies sizes between host and GPU"),
    op("quantize_per_tensor", "input|tensors, scale|scales, zero_point|zero_points, dtype", fails="CG201",
       because="reads its scale on the host", when=when_.is_tensor("scale"), seen="quantize_per_tensor tensor scale"),
    op("quantize_per_channel", "input, scales, zero_points, axis, dtype", fails="CG201", because="reads its scales on the host",
       seen="quantize_per_channel"),
    op("fake_quantize_per_channel_affine", "input, scale, zero_point, axis, quant_min, quant_max", fails="CG201",
       because="checks its zero points on the host", seen="fake_quantize_per_channel"),
)  # fmt: skip

_BY_NAME = {name: row for row in _ROWS for name in row.names}
UNLISTED = Operation()

# Where an attribute of a tuple that an operation returned is, by the number of its parts: `torch.linalg.svd(x).S`.
FIELDS = {(len(row.parts), part): place for row in _ROWS for place, part in enumerate(row.parts)}


def rows() -> tuple[Operation, ...]:
    """Return the table."""
    return _ROWS


def find(full: str) -> Operation:
    """Return the row of an operation by its dotted name, or a row that says nothing."""
    parts = full.split(".")
    for name in (".".join(parts[-2:]), parts[-1], parts[-1][:-1] if parts[-1].endswith("_") else ""):
        if name in _BY_NAME:
            return _BY_NAME[name]
    return UNLISTED
