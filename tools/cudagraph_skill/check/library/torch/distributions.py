"""Follow torch.distributions, which validate their arguments on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check import edits
from cudagraph_skill.check.interpreter.values import Host, Object, Tensor, Value, const, is_none, quoted, tensors_in
from cudagraph_skill.check.library.binding import bind
from cudagraph_skill.check.library.torch import factories

if TYPE_CHECKING:
    import ast

    from cudagraph_skill.check.interpreter.machine import Machine

Args = list[Value]
Kwargs = dict[str, Value]

# Distributions that read the GPU even without validation
_ALWAYS_CHECKS = {"OneHotCategorical", "OneHotCategoricalStraightThrough", "Multinomial", "RelaxedOneHotCategorical", "StudentT", "VonMises",
                  "Binomial", "NegativeBinomial", "MultivariateNormal", "RelaxedBernoulli", "FisherSnedecor", "LKJCholesky",
                  "Wishart"}  # fmt: skip


def set_default(machine: Machine, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Set whether distributions that are made from now on validate their arguments, unless they are told."""
    del node
    value = bind("value", args, kwargs).get("value")
    machine.torch.validates = not (isinstance(value, Host) and value.value is False)
    return const(None)


def _validates(machine: Machine, made: Object) -> bool:
    given = made.kwargs.get("validate_args")
    if given is None or is_none(given):
        return machine.torch.validates
    return not (isinstance(given, Host) and given.value is False)


def distribution(machine: Machine, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Make a distribution, which validates its arguments on the host."""
    made = Object(name, args, kwargs, machine.round)
    on_gpu = any(tensor.on_gpu for part in (*args, *kwargs.values()) for tensor in tensors_in(part))
    last = name.rsplit(".", 1)[-1]
    if on_gpu and last in _ALWAYS_CHECKS and "scale_tril" not in kwargs and machine.inside and not _validates(machine, made):
        machine.report("CG228", node, f"{quoted(node)} reads its arguments on the host even without validation")
    if on_gpu and _validates(machine, made) and machine.inside:
        machine.report(
            "CG228",
            node,
            f"{quoted(node)} checks its arguments on the host: validate_args=False is missing",
            edits.keyword(node, "validate_args", "False"),
        )
    if on_gpu:
        machine.gpu_work(node, *args, *kwargs.values())
    return made


def _of_distribution(machine: Machine, made: Object, name: str, args: Args, node: ast.AST) -> Value:
    parts = [made, *(item for item in made.args if isinstance(item, Object))]
    if name in {"sample", "rsample"} and not any(map(_on_gpu, parts)):
        return factories.cpu_random(machine, node)
    machine.gpu_work(node, *args)
    if _validates(machine, made):
        _report_validation(machine, made, name, args, node)
    elif name == "sample" and any(part.name.endswith((".Normal", ".LogNormal")) for part in parts):
        machine.report("CG229", node, f"{quoted(node)} checks the standard deviations on the host; rsample() does not")
    if name == "expand":
        return made
    return Tensor("cuda", None, "int" if "Categorical" in made.name and name == "sample" else "float")


def _on_gpu(made: Object) -> bool:
    """Return whether a distribution is made of a tensor on the GPU."""
    return any(tensor.on_gpu for part in (*made.args, *made.kwargs.values()) for tensor in tensors_in(part))


def _report_validation(machine: Machine, made: Object, name: str, args: Args, node: ast.AST) -> None:
    """Report `log_prob` of a distribution that was made before: where it is made in the same call, that is reported."""
    if name == "log_prob" and made.made < machine.round and any(isinstance(arg, Tensor) and arg.on_gpu for arg in args):
        machine.report("CG228", node, f"{quoted(node)} checks its argument on the host: validate_args=False is missing")


def of_distribution(machine: Machine, owner: Object, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """Return what a method of a distribution returns."""
    del kwargs
    return _of_distribution(machine, owner, name, args, node)
