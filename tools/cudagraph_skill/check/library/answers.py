"""Collect the functions that answer the interpreter: this module is its `Library`."""

from __future__ import annotations

from cudagraph_skill.check.library.builtins import builtin
from cudagraph_skill.check.library.containers import read_text
from cudagraph_skill.check.library.python import bind_arguments, complete, decorate_class, instantiate, mark
from cudagraph_skill.check.library.stdlib import environment
from cudagraph_skill.check.library.torch.attributes import attribute, named
from cudagraph_skill.check.library.torch.autograd import drops_gradients
from cudagraph_skill.check.library.torch.contexts import enter
from cudagraph_skill.check.library.torch.distributed import on_dropped
from cudagraph_skill.check.library.torch.elementwise import elementwise
from cudagraph_skill.check.library.torch.functions import call, call_method
from cudagraph_skill.check.library.torch.in_place import update
from cudagraph_skill.check.library.torch.indexing import index, set_index, update_index
from cudagraph_skill.check.library.torch.layers import call_module
from cudagraph_skill.check.library.torch.modules import all_modules, tensors_of
from cudagraph_skill.check.library.torch.objects import (
    any_item,
    call_object,
    module_attribute,
    module_item,
    object_item,
    object_items,
    truth,
)
from cudagraph_skill.check.library.torch.optimizers import parameters_of
from cudagraph_skill.check.library.torch.recurrent import on_library, on_method, on_unknown
from cudagraph_skill.check.library.torch.state import breaks_capture, note_library
from cudagraph_skill.check.library.torch.streams import on_end, on_launch
from cudagraph_skill.check.library.torch.tensors import is_of_tensors, on_set
from cudagraph_skill.check.library.torch.transforms import call_wrapped

__all__ = [
    "all_modules",
    "any_item",
    "attribute",
    "bind_arguments",
    "breaks_capture",
    "builtin",
    "call",
    "call_method",
    "call_module",
    "call_object",
    "call_wrapped",
    "complete",
    "decorate_class",
    "drops_gradients",
    "elementwise",
    "enter",
    "environment",
    "index",
    "instantiate",
    "is_of_tensors",
    "mark",
    "module_attribute",
    "module_item",
    "named",
    "note_library",
    "object_item",
    "object_items",
    "on_dropped",
    "on_end",
    "on_launch",
    "on_library",
    "on_method",
    "on_set",
    "on_unknown",
    "parameters_of",
    "read_text",
    "set_index",
    "tensors_of",
    "truth",
    "update",
    "update_index",
]
