"""Read the source that the user named."""
