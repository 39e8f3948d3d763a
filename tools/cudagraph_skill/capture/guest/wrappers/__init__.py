"""Wrappers that replay CUDA graphs, one in each module: `skill tune` measures them, and writes the one that it recommends.

A module of this package needs nothing but torch, because it is written into the user's project as it is.
"""
