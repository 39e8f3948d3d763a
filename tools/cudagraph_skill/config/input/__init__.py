"""Read configurations out of text: shell scripts, Python recipes, YAML and JSON. Nothing that is read is executed."""
