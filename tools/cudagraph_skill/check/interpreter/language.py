"""Collect the functions that follow Python's statements, expressions and calls."""

from __future__ import annotations

from cudagraph_skill.check.interpreter.calls import CALLS
from cudagraph_skill.check.interpreter.expressions import EXPRESSIONS
from cudagraph_skill.check.interpreter.machine import Language
from cudagraph_skill.check.interpreter.statements import STATEMENTS

PYTHON = Language(STATEMENTS, EXPRESSIONS, CALLS)
