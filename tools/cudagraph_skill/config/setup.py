"""What a release of the packages makes of a configuration: defaults filled in, old names and values carried over."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from cudagraph_skill.config import options
from cudagraph_skill.config.settings import Form, Member, Reading, Setting, Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cudagraph_skill.config.releases import Release, Releases

# Defaults other than None, False and 0, as the dataclasses and the parser have them.
_DEFAULTS: dict[str, object] = {
    "add_bias_linear": True,
    "attention_dropout": 0.1,
    "check_for_nan_in_loss_and_grad": True,
    "cross_entropy_fusion_impl": "native",
    "cuda_graph_impl": "none",
    "cuda_graph_warmup_steps": 3,
    "ddp.check_for_nan_in_grad": True,
    "expert_model_parallel_size": 1,
    "fp8_recipe": "delayed",
    "hidden_dropout": 0.1,
    "inference_batch_times_seqlen_threshold": -1,
    "inference_dynamic_batching_num_cuda_graphs": 16,
    "moe_layer_freq": 1,
    "moe_token_dispatcher_type": "allgather",
    "pipeline_model_parallel_size": 1,
    "rerun_state_machine.check_for_nan_in_loss": True,
    "rl_kv_cache_management_mode": "persist",
    "transformer_impl": "transformer_engine",
}
_DEFAULTS_OF_FORM: dict[Form, dict[str, object]] = {
    Form.COMMAND_LINE: {"gradient_accumulation_fusion": True},
    Form.KEYWORDS: {},
    Form.RECIPE: {"gradient_accumulation_fusion": True},  # where the fused kernel is installed
}
# Settings that a base recipe for a model gives: what it leaves out here may be set there.
_OF_THE_MODEL = frozenset(
    "add_bias_linear add_qkv_bias attention_dropout hidden_dropout moe_input_jitter_eps moe_layer_freq moe_router_padding_for_fp8 "
    "moe_shared_expert_intermediate_size moe_shared_expert_overlap moe_token_dispatcher_type num_moe_experts "
    "recompute_granularity recompute_modules gradient_accumulation_fusion pipeline_model_parallel_size fp8 fp4".split()
)
_LONGEST_PATTERN = 10_000  # layers


class UndecidedError(Exception):
    """A constraint depends on a setting whose value was not read."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name
        self.reason = reason


def any_of(*conditions: Callable[[], object]) -> bool:
    """Return whether one of the conditions holds, also where others depend on what was not read.

    Raises:
        UndecidedError: None holds, and one of them is not known.
    """
    undecided: list[UndecidedError] = []
    for condition in conditions:
        try:
            if condition():
                return True
        except UndecidedError as error:
            undecided.append(error)
    if undecided:
        raise undecided[0]
    return False


@dataclass
class Setup:
    """A configuration as one set of releases understands it.

    Attributes:
        variables: Environment: what `--env` gives, over what the text sets; Unread where that is not known.
        arch: Compute capability, 90 for sm_90; None where it was not given.
    """

    reading: Reading
    releases: Releases
    variables: Mapping[str, str | Unread]
    arch: int | None = None

    @property
    def core(self) -> Release:
        """Release of Megatron-Core."""
        return self.releases.core

    @property
    def form(self) -> Form:
        """Who checks this configuration."""
        return self.reading.form

    def setting(self, name: str) -> Setting | None:
        """Return the setting of this name that counts, if the text has one."""
        return self.reading.last(name)

    def value(self, name: str) -> object:
        """Return the value of a setting, or its default.

        Raises:
            UndecidedError: It was not read, or a base that was not read may set it.
        """
        setting = self.setting(name)
        if setting is None:
            return self._default(name)
        if isinstance(setting.value, Unread):
            raise UndecidedError(setting.written, f"is `{setting.value.text}`, which was not read")
        return setting.value

    def _default(self, name: str) -> object:
        if self.reading.changed_by:
            raise UndecidedError(name, f"may be set by {self.reading.changed_by[0]}, which was not read")
        section = self.setting(name.rpartition(".")[0])
        if section is not None and isinstance(section.value, Unread):
            raise UndecidedError(name, f"may be set by {section.value.text}, which was not read")
        if self.reading.based_on and name in _OF_THE_MODEL:
            raise UndecidedError(name, f"may be set by {self.reading.based_on[0]}, which was not read")
        return _DEFAULTS_OF_FORM[self.form].get(name, _DEFAULTS.get(name))

    def variable(self, name: str) -> str:
        """Return the value of a variable of the environment, an empty text where it is not set.

        Raises:
            UndecidedError: It was not read.
        """
        value = self.variables.get(name, "")
        if isinstance(value, Unread):
            raise UndecidedError(name, f"is `{value.text}`, which was not read")
        return value

    def has_section(self, section: str) -> bool:
        """Return whether the text sets a section to anything but None."""
        own = self.setting(section)
        if own is not None and own.value is None:
            return False
        return own is not None or any(setting.name.startswith(f"{section}.") for setting in self.reading.settings)

    def number(self, name: str) -> float:
        """Return a setting as a number, 0 where it is none."""
        value = self.value(name)
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return 0.0

    def words(self, name: str) -> list[str]:
        """Return a setting as a list of words; a text is split at commas and blanks."""
        value = self.value(name)
        if isinstance(value, str):
            return value.replace(",", " ").split()
        return [str(word) for word in value] if isinstance(value, list) else []

    def spelled(self, name: str) -> str:
        """Spell a setting as the text does, or as this form would."""
        if setting := self.setting(name):
            return setting.written
        return options.flag_of(name, self._opposite(name)).partition(" ")[0] if self.form is Form.COMMAND_LINE else name

    def spelled_like(self, setting: Setting, name: str) -> str:
        """Spell a name as a setting of the text is spelled: with its prefix."""
        if self.form is Form.COMMAND_LINE:
            return f"--{name.replace('_', '-')}"
        return setting.written.removesuffix(setting.name) + name

    def _opposite(self, name: str) -> object:
        default = _DEFAULTS_OF_FORM[self.form].get(name, _DEFAULTS.get(name))
        return not default if isinstance(default, bool) or default is None else default

    @cached_property
    def implementation(self) -> str:
        """How graphs are made: none, local, transformer_engine or full_iteration, after old options were carried over."""
        written = str(self.value("cuda_graph_impl") or "none") if self.core >= (0, 15) else "none"
        if written == "none":
            written = "transformer_engine" if self.value("external_cuda_graph") else written
            written = "local" if self.value("enable_cuda_graph") else written
        if self.core >= (0, 18) and "full_iteration" in self.written_modules and written in ("none", "local"):
            return "full_iteration"
        return written

    @property
    def switch(self) -> str:
        """What asks for graphs, as the text spells it: `--cuda-graph-impl local`; an old switch only where it is no old name."""
        old = next(
            (name for name in ("enable_cuda_graph", "external_cuda_graph") if self.setting(name) and self.value(name)), ""
        )
        if old:
            return self.spelled(old) if self.core < (0, 15) else f"{self.implementation} graphs"
        return f"{self.spelled('cuda_graph_impl')} {self.value('cuda_graph_impl')}"

    @property
    def modules_setting(self) -> Setting | None:
        """The setting that names the captured modules."""
        if self.clears_modules:
            return None
        modern = self.setting("cuda_graph_modules") if self.core >= (0, 18) else None
        return modern or self.setting("cuda_graph_scope")

    @cached_property
    def clears_modules(self) -> bool:
        """Whether Bridge empties the captured modules before Megatron-Core sees them: 0.6, where `cuda_graph_impl` is none."""
        since = self.releases.bridge is not None and self.releases.bridge >= (0, 6)
        return self.form is Form.RECIPE and since and self.value("cuda_graph_impl") in ("none", None)

    @cached_property
    def written_modules(self) -> list[str]:
        """The captured modules as they are written, old values included."""
        setting = self.modules_setting
        return self.module_names(setting) if setting else []

    def module_names(self, setting: Setting) -> list[str]:
        """Return the names in a list of captured modules, as the release splits a text."""
        value = setting.value
        if isinstance(value, Unread):
            raise UndecidedError(setting.written, f"is `{value.text}`, which was not read")
        if isinstance(value, str):
            words = [value] if self.core < (0, 16) else value.split(",")
            return [word for word in words if word]
        return [str(word) for word in value] if isinstance(value, list) else []

    @property
    def named_modules(self) -> list[str]:
        """The captured modules of both names, as Bridge reads them before Megatron-Core does: 0.4 reads members of the enumeration only."""
        settings = [setting for name in ("cuda_graph_scope", "cuda_graph_modules") if (setting := self.setting(name))]
        if (self.releases.bridge or (9,)) >= (0, 5):
            return [word for setting in settings for word in self.module_names(setting)]
        return [
            word
            for setting in settings
            if isinstance(setting.value, list)
            for word in setting.value
            if isinstance(word, Member)
        ]

    @cached_property
    def modules(self) -> list[str]:
        """The captured modules of per-layer graphs; an empty list captures whole layers."""
        others = ("full", "full_iteration", *(["full_iteration_inference"] if self.core >= (0, 18) else []))
        per_layer = [name for name in self.written_modules if name not in others]
        if self.core >= (0, 16) and self.implementation == "local" and {"moe_router", "moe_preprocess"} & set(per_layer):
            per_layer += [name for name in ("moe_router", "moe_preprocess") if name not in per_layer]
        return per_layer

    @cached_property
    def whole_iteration(self) -> bool:
        """Whether one graph holds forward and backward of the whole iteration."""
        if self.core >= (0, 18):
            return self.implementation == "full_iteration"
        return self.implementation == "local" and "full_iteration" in self.written_modules

    def carries_over(self, value: str) -> bool:
        """Return whether this implementation goes with a scope value that became a setting of its own in 0.18."""
        with_it = ("local", "full_iteration") if value == "full_iteration" else ("local",)
        return self.implementation in with_it

    @property
    def per_layer(self) -> bool:
        """Whether graphs are made, one or several a layer."""
        return self.implementation in ("local", "transformer_engine") and not self.whole_iteration

    @property
    def checks_modules(self) -> bool:
        """Whether the captured modules are compared with the model: until 0.17 also those beside `full_iteration`."""
        return self.per_layer or (self.whole_iteration and self.core < (0, 18))

    @cached_property
    def inference_scope(self) -> str:
        """Return what an inference graph holds (0.18 and later)."""
        if self.core >= (0, 18) and "full_iteration_inference" in self.written_modules and self.implementation != "none":
            return "block"
        default = "layer" if self.implementation == "local" else "none"
        return str(self.value("inference_cuda_graph_scope") or default)

    @property
    def recompute(self) -> str:
        """Granularity of recompute: an empty text, selective or full."""
        return "selective" if self.value("recompute_activations") else str(self.value("recompute_granularity") or "")

    @property
    def recomputed(self) -> list[str]:
        """Modules that selective recompute runs again."""
        return self.words("recompute_modules") or ["core_attn"]

    @property
    def experts(self) -> bool:
        """Whether the model has layers with experts."""
        return self.number("num_moe_experts") > 1

    @property
    def dense_layers(self) -> bool:
        """Whether a model with experts has layers without."""
        frequency = _pattern(self.value("moe_layer_freq"))
        return 0 in frequency if isinstance(frequency, list) else frequency != 1

    @property
    def drop_and_pad(self) -> bool:
        """Whether experts get a fixed number of tokens."""
        return self.value("moe_expert_capacity_factor") is not None and bool(self.value("moe_pad_expert_input_to_capacity"))

    @property
    def delays_wgrad(self) -> str:
        """The setting that delays weight gradients, or an empty text."""
        name = self.overlap_setting("delay_wgrad_compute")
        return name if self.value(name) else ""

    @property
    def overlaps_experts(self) -> str:
        """The setting that overlaps the communication of experts, or an empty text."""
        name = self.overlap_setting("overlap_moe_expert_parallel_comm")
        return name if self.value(name) else ""

    def overlap_setting(self, name: str) -> str:
        """Return the setting of an overlap that counts: Bridge writes those of a `comm_overlap` over the model's, given or not."""
        return f"comm_overlap.{name}" if self.form is Form.RECIPE and self.has_section("comm_overlap") else name

    @property
    def offloads(self) -> bool:
        """Whether activations of single modules are copied to the host."""
        return bool(self.value("fine_grained_activation_offloading"))

    @property
    def expandable_segments(self) -> bool:
        """Whether the packages see the allocator's expandable segments: they look into one variable only."""
        value = self.variables.get("PYTORCH_CUDA_ALLOC_CONF", "")
        written = value.text if isinstance(value, Unread) else value
        return "expandable_segments:True" in written or "expandable_segments:True" in self.variable("PYTORCH_CUDA_ALLOC_CONF")

    def below_blackwell(self, rule: str) -> bool:
        """Return whether the GPU is older than sm_100.

        Raises:
            UndecidedError: The architecture was not given; `rule` says what depends on it.
        """
        if self.arch is None:
            raise UndecidedError("--arch", f"was not given: {rule}")
        return self.arch < 100

    @property
    def nan_check(self) -> bool:
        """Whether the loss is checked on the host."""
        if self.form is Form.RECIPE:
            return bool(self.value("rerun_state_machine.check_for_nan_in_loss"))
        scaled = self.value("fp16") and not self.value("loss_scale")  # then the loss scaler looks for NaN
        return bool(self.value("check_for_nan_in_loss_and_grad")) and not scaled and not self.value("fake_process_group")


def _pattern(value: object) -> object:
    """Read a pattern such as "([0]*1+[1]*3)*2" as a list, other values as a whole number where they are one."""
    if isinstance(value, str) and "[" in value:
        try:
            return _list(ast.parse(value, mode="eval").body)
        except (SyntaxError, ValueError, RecursionError):
            raise UndecidedError("moe_layer_freq", f"is `{value[:80]}`, which was not read") from None
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _list(node: ast.expr) -> list[int]:
    """Compute lists of numbers joined with + and repeated with *."""
    if isinstance(node, ast.List):
        return [element.value for element in node.elts if isinstance(element, ast.Constant) and isinstance(element.value, int)]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _list(node.left) + _list(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        repeated, times = (node.right, node.left) if isinstance(node.left, ast.Constant) else (node.left, node.right)
        if isinstance(times, ast.Constant) and isinstance(times.value, int) and times.value <= _LONGEST_PATTERN:
            return (_list(repeated) * times.value)[:_LONGEST_PATTERN]
    raise ValueError("no pattern")
