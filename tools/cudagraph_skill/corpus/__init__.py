"""Find the sections of the references that answer a question."""
