"""What a constraint is: an id, the releases and forms it holds for, and a function that finds it violated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from cudagraph_skill.config import options
from cudagraph_skill.config.settings import Form

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_skill.config.releases import Release
    from cudagraph_skill.config.setup import Setup


class Leave(NamedTuple):
    """The value of a setting that is to be left out."""


LEAVE_OUT: Final = Leave()


class Change(NamedTuple):
    """A setting to write: a field with its value, LEAVE_OUT, or an environment variable."""

    name: str
    value: object
    variable: bool = False


class Clash(NamedTuple):
    """Settings that do not go together: what was seen and what it leads to, and the changes that end it.

    Attributes:
        settings: Names of the settings that clash, the one to look at first at the front.
        advice: What to do where a change of settings does not say it.
    """

    message: str
    settings: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()
    advice: str = ""


class Constraint(NamedTuple):
    """One row: where it holds, and the predicate.

    Attributes:
        since: First release with it, of Megatron-Core, or of Bridge for those that Bridge checks.
        until: First release without it.
    """

    id: str
    since: Release
    until: Release
    forms: frozenset[Form]
    of_bridge: bool
    violated: Callable[[Setup], Clash | None]

    def holds_for(self, setup: Setup) -> bool:
        """Return whether these releases check this form of configuration for it."""
        release = setup.releases.bridge if self.of_bridge else setup.core
        return release is not None and setup.form in self.forms and self.since <= release and release[:2] < self.until


CONSTRAINTS: dict[str, Constraint] = {}
_EVERY_FORM = frozenset(Form)


def constraint(
    name: str,
    since: Release = (0,),
    until: Release = (9999,),
    forms: frozenset[Form] = _EVERY_FORM,
    *,
    of_bridge: bool = False,
) -> Callable[[Callable[[Setup], Clash | None]], Callable[[Setup], Clash | None]]:
    """Register a predicate under an id, which has its prose in references/constraints.md."""

    def register(violated: Callable[[Setup], Clash | None]) -> Callable[[Setup], Clash | None]:
        assert name not in CONSTRAINTS, name
        CONSTRAINTS[name] = Constraint(name, since, until, forms, of_bridge, violated)
        return violated

    return register


def fix(setup: Setup, clash: Clash) -> str:
    """Say the changes that end a clash in one sentence."""
    said = [_said(setup, change) for change in clash.changes]
    return "; ".join([*said, *([clash.advice] if clash.advice else [])])


def _said(setup: Setup, change: Change) -> str:
    if change.variable:
        return f"set {change.name}={change.value} in the environment"
    if change.value is LEAVE_OUT:
        return f"leave out {setup.spelled(change.name)}"
    if setup.form is Form.COMMAND_LINE:
        flag = options.flag_of(change.name, change.value)
        return f"write {flag}" if flag else f"leave out {setup.spelled(change.name)}"
    value = change.value if isinstance(change.value, str) else repr(change.value)
    return f"set {setup.spelled(change.name)} to {value}"
