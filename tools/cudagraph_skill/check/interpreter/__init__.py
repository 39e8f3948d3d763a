"""Run Python code on abstract values."""
