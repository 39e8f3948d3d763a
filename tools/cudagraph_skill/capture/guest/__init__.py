"""The capture doctor: what runs in the user's interpreter with torch, and `host.py`, which starts it."""
