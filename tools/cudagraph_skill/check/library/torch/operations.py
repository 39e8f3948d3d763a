"""Names of classes and functions that several rules of torch's objects share."""

NEEDS_CAPTURABLE = {"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adadelta", "Rprop", "ASGD"}
NO_CAPTURED_FORM = {"LBFGS", "Adafactor", "SparseAdam"}

ALWAYS_CHECKS = {"OneHotCategorical", "OneHotCategoricalStraightThrough", "Multinomial", "RelaxedOneHotCategorical", "StudentT", "VonMises",
                 "Binomial", "NegativeBinomial", "MultivariateNormal"}  # fmt: skip  # distributions that read the GPU in any case
SYNCHRONIZE = {"torch.cuda.synchronize", "torch.accelerator.synchronize", "torch.cuda.default_stream.synchronize"}
COLLECTIVES = {"all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor", "broadcast", "reduce",
               "all_to_all", "all_to_all_single", "send", "recv", "isend", "irecv", "scatter", "gather"}  # fmt: skip
OBJECT_COLLECTIVES = {"broadcast_object_list", "all_gather_object", "gather_object", "scatter_object_list", "send_object_list",
                      "recv_object_list"}  # fmt: skip
