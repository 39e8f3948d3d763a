"""Checks that run in the interpreter of the user."""
