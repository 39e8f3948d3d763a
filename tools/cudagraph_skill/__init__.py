"""CUDA Graphs for PyTorch: search, checks and scaffolds behind the `skill` command."""

__version__ = "0.2.0"
