"""What torch does to abstract values."""
