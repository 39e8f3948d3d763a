"""Attention by torch's flex_attention, compiled and not, and a step that reads on the host after it."""

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

torch.manual_seed(0)
compiled = torch.compile(flex_attention)


def causal(_batch, _head, query, key):
    return query >= key


mask = create_block_mask(causal, 1, 1, 128, 128, device="cuda")
projection = torch.nn.Linear(32, 32).cuda()


@torch.no_grad()
def attend(x):
    return flex_attention(projection(x), x, x, block_mask=mask)


@torch.no_grad()
def attend_compiled(x):
    return compiled(projection(x), x, x, block_mask=mask)


@torch.no_grad()
def attend_and_read(x):
    out = compiled(projection(x), x, x, block_mask=mask)
    return out if out.mean().item() < 9 else x


def inputs():
    return torch.randn(1, 2, 128, 32, device="cuda")
