"""Check files and folders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_skill.check.input.targets import expand, split
from cudagraph_skill.check.reading import joined, may_capture, read_target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_skill.check.findings import Report
    from cudagraph_skill.check.input.settings import Options
    from cudagraph_skill.errors import SkillError

_FEW = 8  # files that are read here: starting worker processes takes longer


def check_paths(targets: list[str], options: Options) -> Report:
    """Return what reading these finds: `FILE`, `FILE:QUALNAME` or folders.

    Of a folder, files are read that may capture something; with `options.every` all of them.

    Raises:
        SkillError: a target is not there, or a file has no function of that name.
    """
    named = {split(target).path for target in targets}
    wanted = [
        target for target in expand(targets, options) if options.every or target.path in named or may_capture(target.path)
    ]
    parts: Iterable[Report | SkillError] = (read_target(target, options) for target in wanted)
    if len(wanted) > _FEW:
        from cudagraph_skill.check import parallel  # noqa: PLC0415 - for folders only

        if (workers := parallel.cores()) > 1:
            parts = parallel.read_all(wanted, options, workers)
    return joined(parts)
