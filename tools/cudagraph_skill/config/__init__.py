"""Check the CUDA-graph settings of Transformer Engine, Megatron-Core and Megatron-Bridge for the releases in use.

The life of `examine(text, ".sh", ["megatron-core==0.18.2"])`:

1. `input` reads the configurations of a text as `settings.Reading`: `command_line` (with `tokens`, `expand`, `shell`, and `unknown` for
   words that are not known) flags, on each way through conditions that are not known; `overrides` what a command sets of a recipe, `recipe` (with `follow`, `calls`, `values`) Python without running it,
   `document` YAML and JSON.
2. `releases.choose` takes the releases from `--for`, from what is installed, or the newest that was read.
3. `setup.Setup` is the configuration as those releases understand it: defaults, old names carried over, modules completed.
4. `constraint.CONSTRAINTS` holds one row a constraint: `constraints_core`, `constraints_features`, `constraints_inference`,
   `constraints_bridge`. A row that needs a value which was not read raises `UndecidedError`, and is reported as such; what no row needs
   is noted.
5. `renames` finds old names and names that a release lacks, by the table in `options`; `notes` what no package checks.
6. `output` formats the report, `correction` writes the fixes into the text. Prose is in references/constraints.md.
"""

from cudagraph_skill.config.correction import correct
from cudagraph_skill.config.examine import Report, examine

__all__ = ["Report", "correct", "examine"]
