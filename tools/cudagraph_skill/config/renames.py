"""Settings that a release calls otherwise, no longer has, or reads with another default."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudagraph_skill.config import options
from cudagraph_skill.config.constraint import LEAVE_OUT, Change, Clash
from cudagraph_skill.config.releases import dotted
from cudagraph_skill.config.settings import Form

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_skill.config.settings import Setting
    from cudagraph_skill.config.setup import Setup


class Rename(NamedTuple):
    """One setting or value under its old and its new name.

    Attributes:
        changes: What writes the new name; empty where that takes a decision.
    """

    old: str
    new: str
    message: str
    line: int
    changes: tuple[Change, ...] = ()


def renames(setup: Setup) -> list[Rename]:
    """Return what a configuration calls by a name that its release has replaced."""
    if setup.form is Form.RECIPE and setup.implementation == "none":
        return []  # Bridge clears the scope before Megatron-Core sees it
    if setup.form is Form.RECIPE and any(setting.written.startswith("--") for setting in setup.reading.settings):
        return []  # flags of Bridge's scripts, which have no other name
    return [*_scope_values(setup), *_switches(setup), *_scope(setup), *_replaced(setup)]


def _switches(setup: Setup) -> Iterator[Rename]:
    """Yield the two switches that became values of `cuda_graph_impl` in 0.15."""
    if setup.core < (0, 15) or setup.value("cuda_graph_impl") not in ("none", None):
        return  # both together violate a constraint
    if setup.value("enable_cuda_graph") and setup.value("external_cuda_graph"):
        return
    for name, value in (("enable_cuda_graph", "local"), ("external_cuda_graph", "transformer_engine")):
        setting = setup.setting(name)
        if setting is None or setting.value is False:
            continue
        if value == "transformer_engine" and setup.core >= (0, 18) and set(setup.written_modules) & set(_OLD_VALUES) - {"full"}:
            continue  # both together violate a constraint, which says what to write
        moved = value == "local" and _moves_to_whole_iteration(setup)
        new = _written(setup, "cuda_graph_impl", "full_iteration" if moved else value)
        message = f"{setting.written} is deprecated since megatron-core 0.15: use {new}"
        changes = [Change(name, LEAVE_OUT)]
        if setup.setting("cuda_graph_impl") is None and not moved:
            changes.append(Change("cuda_graph_impl", value))
        yield Rename(setting.written, new, message, setting.line, tuple(changes))


def _scope(setup: Setup) -> Iterator[Rename]:
    setting = setup.setting("cuda_graph_scope")
    if setup.core < (0, 18) or setting is None or setting.value is None or setup.setting("cuda_graph_modules"):
        return
    if setup.written_modules and set(setup.written_modules) <= set(_OLD_VALUES):
        return  # nothing is left of it: what is said of the value says so, or a constraint
    new = setup.spelled_like(setting, "cuda_graph_modules")
    message = f"{setting.written} is deprecated since megatron-core 0.18: it is now {new}"
    left = [name for name in _words(setting) if name not in _OLD_VALUES]
    changes = [Change("cuda_graph_scope", LEAVE_OUT)]
    if left:
        changes.append(Change("cuda_graph_modules", left))
    yield Rename(setting.written, new, message, setting.line, tuple(changes))


_OLD_VALUES = {
    "full": ((0, 16), "", None),
    "full_iteration": ((0, 18), "cuda_graph_impl", "full_iteration"),
    "full_iteration_inference": ((0, 18), "inference_cuda_graph_scope", "block"),
}


def _scope_values(setup: Setup) -> Iterator[Rename]:
    """Values of the scope that became settings of their own, or an empty list."""
    setting = setup.modules_setting
    if setting is None:
        return
    for value in setup.written_modules:
        since, name, new_value = _OLD_VALUES.get(value, ((9999,), "", None))
        if setup.core >= since and value == "full_iteration_inference" and setup.implementation == "none":
            yield _without_effect(setup, setting, value)
            continue
        if setup.core < since or (name and not setup.carries_over(value)):
            continue
        if not name and len(setup.written_modules) > 1:
            continue  # with other modules it violates a constraint
        if not name:
            message = (
                f"the value full is deprecated since megatron-core {dotted(since)}: leave {_now_called(setup, setting)} out, or the list "
                "empty, to capture whole layers"
            )
            yield Rename(value, "an empty list", message, setting.line, (Change(setting.name, LEAVE_OUT),))
            continue
        new = _written(setup, name, new_value)
        message = f"the value {value} is deprecated since megatron-core {dotted(since)}: use {new}"
        if set(setup.written_modules) <= set(_OLD_VALUES):
            message += f", and leave {_now_called(setup, setting)} out"
        left = [other for other in setup.written_modules if other != value]
        yield Rename(value, new, message, setting.line, (Change(name, new_value), Change(setting.name, left or LEAVE_OUT)))


def _now_called(setup: Setup, setting: Setting) -> str:
    """Spell the setting of the captured modules, with its new name where it has one."""
    new = setup.spelled_like(setting, "cuda_graph_modules")
    renamed = setting.name != "cuda_graph_modules" and setup.core >= (0, 18)
    return f"{setting.written} (now {new})" if renamed else setting.written


def _without_effect(setup: Setup, setting: Setting, value: str) -> Rename:
    """Return what is to be done where inference graphs are asked for and no graphs are made."""
    new = " ".join([_written(setup, "cuda_graph_impl", "local"), _written(setup, "inference_cuda_graph_scope", "block")])
    message = (
        f"the value {value} is deprecated since megatron-core 0.18 and has no effect without {_written(setup, 'cuda_graph_impl', 'local')}: "
        f"leave {_now_called(setup, setting)} out, or use {new} in its place"
    )
    left = [other for other in setup.written_modules if other != value]
    return Rename(value, new, message, setting.line, (Change(setting.name, left or LEAVE_OUT),))


def _replaced(setup: Setup) -> Iterator[Rename]:
    """Options that a release no longer has, where another one took their place."""
    for setting in _each(setup):
        life = options.LIVES.get(setting.name)
        new = options.instead(setting.name, setup.core)
        if life is None or setup.core < life.until or not new:
            continue
        written = _flag(new) if setup.form is Form.COMMAND_LINE else new
        opposite = " with the opposite sense" if new == "rl_persist_cuda_graphs" else ""
        message = f"megatron-core {dotted(life.until)} replaced {setting.written} by {written}{opposite}, and stops with unrecognized arguments"
        value = not setting.value if opposite else setting.value
        changes = (Change(setting.name, LEAVE_OUT), Change(new, value))
        yield Rename(setting.written, written, message, setting.line, changes)


def missing(setup: Setup) -> Iterator[tuple[Setting, Clash]]:
    """Yield the settings that name CUDA graphs and that the release does not have, and that nothing replaced."""
    place = "flag" if setup.form is Form.COMMAND_LINE else "field"
    for setting in _each(setup):
        life = options.life(setting.name, flag=setup.form is Form.COMMAND_LINE)
        if "." in setting.name or ("cuda_graph" not in setting.name and life is None):
            continue
        if life and life.since <= setup.core < life.until and place in life.places:
            continue
        if life and setup.core >= life.until and options.instead(setting.name, setup.core):
            continue  # renamed
        if setup.form is Form.RECIPE and life is None:
            continue  # a model may have fields of its own: a note says so
        yield setting, _lacking(setup, setting, life)


def unknown_fields(setup: Setup) -> list[Setting]:
    """Return what a recipe sets that no release of Megatron-Core has, and that no provider of Bridge is known to have."""
    if setup.form is not Form.RECIPE:
        return []
    named = (one for one in _each(setup) if "cuda_graph" in one.name and "." not in one.name and one.name not in options.LIVES)
    bridge = setup.releases.bridge or (9999,)
    return [one for one in named if bridge < options.OF_PROVIDERS.get(one.name, (99999,))]


def _lacking(setup: Setup, setting: Setting, life: options.Life | None) -> Clash:
    command_line = setup.form is Form.COMMAND_LINE
    kind = "option" if command_line else "field"
    ends = "the run stops with unrecognized arguments" if command_line else "TransformerConfig has no such argument"
    new = _meant(setup, setting) or options.instead(setting.name, setup.core)
    came = f" (it came with {dotted(life.since)})" if life and setup.core < life.since < (9000,) else ""
    message = f"{setting.written} is no {kind} of megatron-core {dotted(setup.core)}{came}: {ends}"
    if life and life.until <= setup.core:
        message = f"{setting.written} was removed in megatron-core {dotted(life.until)}: {ends}"
    if not new:
        return Clash(message, (setting.name,), (Change(setting.name, LEAVE_OUT),))
    if new == "enable_cuda_graph or external_cuda_graph" and setting.value in _SWITCHES:
        change = Change(_SWITCHES[str(setting.value)], True)
        return Clash(message, (setting.name,), (Change(setting.name, LEAVE_OUT), change))
    written = " or ".join(_flag(part) for part in new.split(" or ")) if command_line else new
    same = new in options.LIVES and (not isinstance(setting.value, list) or setup.core >= (0, 16))
    changes = (Change(setting.name, LEAVE_OUT), Change(new, setting.value)) if same else ()
    return Clash(message, (setting.name,), changes, "" if changes else f"use {written}")


_SWITCHES = {"local": "enable_cuda_graph", "transformer_engine": "external_cuda_graph"}


def _meant(setup: Setup, setting: Setting) -> str:
    """Return the option that a name with underscores, or the beginning of a name, stands for: the parser takes neither."""
    if setup.form is not Form.COMMAND_LINE or setting.name in options.LIVES:
        return ""
    name = setting.name.lstrip("-").replace("-", "_")
    known = [other for other, life in options.LIVES.items() if life.since <= setup.core < life.until and "flag" in life.places]
    fitting = [other for other in known if other.startswith(name)]
    return name if name in known else fitting[0] if len(fitting) == 1 else ""


def _moves_to_whole_iteration(setup: Setup) -> bool:
    return setup.core >= (0, 18) and "full_iteration" in setup.written_modules


def _each(setup: Setup) -> Iterator[Setting]:
    """Yield the setting of each name that counts."""
    names = dict.fromkeys(setting.name for setting in setup.reading.settings)
    for name in names:
        setting = setup.setting(name)
        assert setting is not None
        yield setting


def _words(setting: Setting) -> list[str]:
    value = setting.value
    return value.split(",") if isinstance(value, str) else [str(word) for word in value] if isinstance(value, list) else []


def _flag(name: str) -> str:
    option, _, value = name.partition(" ")
    return f"--{option.replace('_', '-')} {value}".rstrip()


def _written(setup: Setup, name: str, value: object) -> str:
    return options.flag_of(name, value) if setup.form is Form.COMMAND_LINE else f"{name}={value}"
