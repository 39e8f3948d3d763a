"""Find the likely causes behind a log or a symptom."""
