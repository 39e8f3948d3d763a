"""Capture a callable on the GPU, replay it, and compare with eager."""
