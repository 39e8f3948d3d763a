"""A small GPT in a package, as public ones have it."""
